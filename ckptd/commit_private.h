/* Private to commit.c and commit_files.c. */
#ifndef CKPTD_COMMIT_PRIVATE_H
#define CKPTD_COMMIT_PRIVATE_H

#include "commit.h"

#define MANIFEST_TMP ".MANIFEST.json.tmp"

/* The machine (commit.c): an operation of the current state has ended. */
void commit_advance(struct commit *c, int64_t result);
/* Keeps the first error and its sentence. */
void commit_fail(struct commit *c, int rc, const char *what);

/* Files (commit_files.c). */
int commit_collect_files(struct commit *c);
/* Writes the data files or the sidecars (by state); commit_advance when all have ended. */
void commit_write_files(struct commit *c);
/* Data files that wait under a limit end now, with c->rc. */
void commit_stop_files(struct commit *c);
int commit_encode_sidecars(struct commit *c);
/* Writes a small file; commit_advance when it has ended. */
void commit_write_text(struct commit *c, const char *name, const struct wbuf *text);
/* The names that this commit may have made, one by one; NULL after the last. */
const char *commit_made_name(struct commit *c, uint32_t i, char dst[NAME_FILE_MAX]);

#endif
