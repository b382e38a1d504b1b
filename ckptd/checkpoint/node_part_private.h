/* Private to commit*.c. */
#ifndef CKPTD_CHECKPOINT_NODE_PART_PRIVATE_H
#define CKPTD_CHECKPOINT_NODE_PART_PRIVATE_H

#include "checkpoint/node_part.h"

/* The machine (checkpoint/node_part.c): an operation of the current state has ended. */
void commit_advance(struct commit *c, int64_t result);
/* Keeps the first error and its sentence. */
void commit_fail(struct commit *c, int rc, const char *what);
void commit_set_state(struct commit *c, enum commit_state state);
/* One operation of the current state: commit_advance with its result. */
void commit_submit(struct commit *c, struct disk_op op);

/* Its own manifest that is there already (checkpoint/node_part_found.c). */
void commit_open_found(struct commit *c);
void commit_read_found(struct commit *c);
/* 0, or -EEXIST when it is not what this commit would write. */
int commit_compare_found(struct commit *c);

/* The parent (checkpoint/node_part_previous.c): opens its directory unless its mark says that it is damaged; commit_advance with 0 in any case. */
void commit_open_parent(struct commit *c);

/* Files (checkpoint/node_part_files.c). */
int commit_collect_files(struct commit *c);
void commit_choose_files(struct commit *c, const struct share_parts *parts);
/* Writes the data files or the sidecars (by state); commit_advance when all have ended. */
void commit_write_files(struct commit *c);
/* The digests are there: data files that stood back for them have their turn. */
void commit_resume_files(struct commit *c);
/* Data files that wait under a limit end now, with c->rc. True: nothing is in flight that would go on. */
bool commit_stop_files(struct commit *c);
int commit_encode_sidecars(struct commit *c);
/* A data file has ended: the next one. */
void commit_file_ended(struct commit *c, int rc, const char *name);
/* Writes it as it is, its writer's name being that of such a file. */
void commit_write_plain(struct commit *c, struct commit_file *f);
void commit_free_file(struct commit_file *f);

/* Packing (checkpoint/node_part_compress.c): writes the file packed, or as it is where that does not pay. Negative: nothing was started. */
int commit_write_packed(struct commit *c, struct commit_file *f);

/* Writes a small file; commit_advance when it has ended. */
void commit_write_text(struct commit *c, const char *name, const struct wbuf *text);
/* Deletes what this commit may have written, name by name; commit_advance after each. False: that was the last. */
bool commit_remove_next(struct commit *c);

#endif
