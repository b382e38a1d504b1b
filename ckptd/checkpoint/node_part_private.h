/* Private to node_part*.c. */
#ifndef CKPTD_CHECKPOINT_NODE_PART_PRIVATE_H
#define CKPTD_CHECKPOINT_NODE_PART_PRIVATE_H

#include "checkpoint/node_part.h"

/* The machine (checkpoint/node_part.c): an operation of the current state has ended. */
void node_part_advance(struct node_part *c, int64_t result);
/* Keeps the first error and its sentence. */
void node_part_fail(struct node_part *c, int rc, const char *what);
void node_part_set_state(struct node_part *c, enum node_part_state state);
/* One operation of the current state: node_part_advance with its result. */
void node_part_submit(struct node_part *c, struct disk_op op);

/* Its own manifest that is there already (checkpoint/node_part_found.c). */
void node_part_open_found(struct node_part *c);
void node_part_read_found(struct node_part *c);
/* 0, or -EEXIST when it is not what this part would write. */
int node_part_compare_found(struct node_part *c);

/* The previous checkpoint (checkpoint/node_part_previous.c): opens its directory unless its mark says that it is damaged;
 * node_part_advance with 0 in any case. */
void node_part_open_previous(struct node_part *c);

/* Files (checkpoint/node_part_files.c). */
static inline const struct layout_file *node_part_layout_file(const struct node_part_file *f)
{
	return &f->rank->layout->files[f->file];
}
static inline const struct head_block *node_part_head(const struct node_part_file *f)
{
	return &f->rank->heads[f->file];
}
int node_part_collect_files(struct node_part *c);
/* 0, or -ENOMEM with the sentence: all files are still there. */
int node_part_choose_files(struct node_part *c, const struct share_parts *parts);
/* Writes the data files or the sidecars (by state); node_part_advance when all have ended. */
void node_part_write_files(struct node_part *c);
/* In DATA: more has arrived, or the digests are there. What waited for it goes on. */
void node_part_resume_files(struct node_part *c);
/* In DATA: nothing of it is on its way to storage. */
bool node_part_files_wait(const struct node_part *c);
/* Data files that wait under a limit end now, with c->rc. True: nothing is in flight that would go on. */
bool node_part_stop_files(struct node_part *c);
int node_part_encode_sidecars(struct node_part *c);
/* A data file has ended: the next one. */
void node_part_file_ended(struct node_part *c, int rc, const char *name);
/* Writes it as it is, its writer's name being that of such a file. */
void node_part_write_plain(struct node_part *c, struct node_part_file *f);
void node_part_free_file(struct node_part_file *f);

/* Packing (checkpoint/node_part_compress.c): writes the file packed, or as it is where that does not pay. Negative: nothing was started. */
int node_part_write_packed(struct node_part *c, struct node_part_file *f);
/* Writes the notice if any file is packed; node_part_advance when that is over. */
void node_part_write_notice(struct node_part *c);

/* Writes a small file; node_part_advance when it has ended. */
void node_part_write_text(struct node_part *c, const char *name, const struct wbuf *text);
/* Deletes what this part may have written, name by name; node_part_advance after each. False: that was the last. */
bool node_part_remove_next(struct node_part *c);

#endif
