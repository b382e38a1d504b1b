/* The catalog: what exists and what happened, in SQLite beside the checkpoints. A cache: the store is the truth, deleting the
 * catalog loses nothing but history, and it is rebuilt at start. Every function tolerates a NULL catalog, and a failing
 * database costs a warning and its own use, never a checkpoint.
 *
 * Called by one thread. What is to be written is queued, in order, for a thread of the catalog's own: a disk that is busy
 * or stuck delays history, not the loop. The queue is bounded; what does not fit is dropped, and said so. The last epochs
 * are held in memory, too. */
#ifndef CKPTD_CATALOG_CATALOG_H
#define CKPTD_CATALOG_CATALOG_H

#include "base/err.h"
#include "format/tensor/names.h"
#include "store/catalog/listed.h"

struct catalog;

enum { CATALOG_QUEUE_MAX = 4096, CATALOG_CLOSE_MS = 5000 };
/* How old what it has noted for lists may become while checkpoints come and go. */
#define CATALOG_LISTED_NS 600000000000ull

/* Opens or creates (catalog/catalog_db.h). */
int catalog_open(const char *store, struct catalog **out, struct err *err);
/* Writes what is queued, and ends. A database that takes longer than CATALOG_CLOSE_MS is left behind, with the memory. */
void catalog_close(struct catalog *catalog);
/* Waits until what was queued is written. 0 or -ETIMEDOUT. */
int catalog_flush(struct catalog *catalog, uint64_t deadline);
/* Brings it in line with the store: forgets what is gone, adds what is missing. At start: it waits for the disk. What lists say of each
 * checkpoint is then noted behind what is queued, and again with the first entry after CATALOG_LISTED_NS, where it failed together with
 * this. */
int catalog_sync(struct catalog *catalog, struct err *err);

void catalog_committed(struct catalog *catalog, const char *job, struct step_id id, uint64_t bytes, uint32_t files,
		       uint32_t world);
/* rc: 0 intact, -EBADMSG damaged. */
void catalog_verified(struct catalog *catalog, const char *job, struct step_id id, int rc);
void catalog_removed(struct catalog *catalog, const char *job, struct step_id id);
/* kind: a short word; text: one sentence. */
void catalog_event(struct catalog *catalog, const char *job, struct step_id id, const char *kind, const char *text);
/* What one recovery was, as JSON (restore/recovery_log.h). */
void catalog_recovery(struct catalog *catalog, const char *job, const char *node, uint64_t at_ns, const char *json);
/* The epochs that were given out must not be given out again, even when nothing was saved in them. */
void catalog_epoch(struct catalog *catalog, const char *job, uint32_t epoch);
uint32_t catalog_last_epoch(struct catalog *catalog, const char *job);

#endif
