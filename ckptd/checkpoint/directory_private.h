/* Private to site*.c. */
#ifndef CKPTD_CHECKPOINT_DIRECTORY_PRIVATE_H
#define CKPTD_CHECKPOINT_DIRECTORY_PRIVATE_H

#include "checkpoint/directory.h"

#define MANIFEST_TMP ".MANIFEST.json.tmp"

/* The machine (checkpoint/directory.c): an operation of the current state has ended. */
void site_advance(struct site *s, int64_t result);
/* Keeps the first error and its sentence. */
void site_fail(struct site *s, int rc, const char *what);
void site_set_state(struct site *s, enum site_state state);
/* One operation of the current state: site_advance with its result. */
void site_submit(struct site *s, struct disk_op op);
/* Handles (checkpoint/directory_close.c): nobody waits for one that is closed; not disk_close_file(), which would run other completions in the middle of this one. */
void site_close_handle(struct site *s, int file);
void site_free_closing(struct site *s);

/* Out of the way (checkpoint/directory_aside.c). */
void site_move_aside(struct site *s);
void site_disarm(struct site *s);

/* A manifest that is there already (checkpoint/directory_found.c). */
void site_read_found(struct site *s);
void site_found_read(struct site *s, int64_t result);
/* What was found when the directory was: 0, or -EEXIST when it is not what is to be written. */
int site_compare_found(struct site *s);

/* The node manifests (checkpoint/directory_manifests.c): site_advance with 0 when all are there as reported, or with an error, which has its sentence. */
void site_look(struct site *s);
void site_free_looks(struct site *s);

#endif
