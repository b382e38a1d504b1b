/* Private to directory*.c. */
#ifndef CKPTD_CHECKPOINT_DIRECTORY_PRIVATE_H
#define CKPTD_CHECKPOINT_DIRECTORY_PRIVATE_H

#include "checkpoint/directory.h"

/* The machine (checkpoint/directory.c): an operation of the current state has ended. */
void directory_advance(struct directory *s, int64_t result);
/* Keeps the first error and its sentence. */
void directory_fail(struct directory *s, int rc, const char *what);
void directory_set_state(struct directory *s, enum directory_state state);
/* One operation of the current state: directory_advance with its result. */
void directory_submit(struct directory *s, struct disk_op op);
/* Handles (checkpoint/directory_handles.c): nobody waits for one that is closed; not disk_close_file(), which would run
 * other completions in the middle of this one. */
void directory_close_handle(struct directory *s, int file);
void directory_free_closing(struct directory *s);

/* Goes on with `then` when a worker has seen that the path of the store still leads to it; else the checkpoint fails
 * (checkpoint/directory_place.c). */
void directory_if_in_place(struct directory *s, void (*then)(struct directory *s));
void directory_place_forget(struct directory *s);

/* A manifest that is there already (checkpoint/directory_found.c). */
void directory_read_found(struct directory *s);
void directory_found_read(struct directory *s, int64_t result);
/* What was found when the directory was: 0, or -EEXIST when it is not what is to be written. */
int directory_compare_found(struct directory *s);

/* The node manifests (checkpoint/directory_manifests.c): directory_advance with 0 when all are there as reported, and fit
 * together, or with an error, which has its sentence. */
void directory_look(struct directory *s);
void directory_free_looks(struct directory *s);
/* Whether they fit together (checkpoint/directory_compare.c), as the end of the look. */
void directory_compare(struct directory *s);
void directory_compare_forget(struct directory *s);

#endif
