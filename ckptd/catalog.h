/* The catalog: what exists and what happened, in SQLite beside the checkpoints. A cache: the store is the truth, deleting the
 * catalog loses nothing but history, and it is rebuilt at start. Every function tolerates a NULL catalog, and a failing
 * database costs a warning and its own use, never a checkpoint. Loop's thread only. */
#ifndef CKPTD_CATALOG_H
#define CKPTD_CATALOG_H

#include "base/err.h"
#include "format/names.h"

struct catalog;

#define CATALOG_FILE "catalog.sqlite"

/* Opens or creates; a database that is damaged or of another version is deleted and made anew. */
int catalog_open(const char *store, struct catalog **out, struct err *err);
void catalog_close(struct catalog *catalog);
/* Brings it in line with the store: forgets what is gone, adds what is missing. */
int catalog_sync(struct catalog *catalog, const char *store, struct err *err);

void catalog_committed(struct catalog *catalog, const char *job, struct step_id id, uint64_t bytes, uint32_t files,
		       uint32_t world);
/* rc: 0 intact, -EBADMSG damaged. */
void catalog_verified(struct catalog *catalog, const char *job, struct step_id id, int rc);
/* kind: a short word; text: one sentence. */
void catalog_event(struct catalog *catalog, const char *job, struct step_id id, const char *kind, const char *text);
/* The epochs that were given out must not be given out again, even when nothing was saved in them. */
void catalog_epoch(struct catalog *catalog, const char *job, uint32_t epoch);
uint32_t catalog_last_epoch(struct catalog *catalog, const char *job);

#endif
