/* Listings that were noted: a table in the catalog, the SQLite database beside the checkpoints. The daemon writes it,
 * whoever lists reads it. It is a cache, in a file that a crash may leave in any state and that another user may have
 * written. So each row carries a digest of itself. A row that is missing, does not match or does not hold any more
 * (store/read/listing.h) costs a look at the checkpoint. */
#ifndef CKPT_STORE_LISTED_H
#define CKPT_STORE_LISTED_H

#include "store/catalog/catalog_view.h"
#include "store/read/listing.h"

#include <stdatomic.h>

struct sqlite3;

/* Makes the table where it is missing. 0 or -EIO. */
int listed_prepare(struct sqlite3 *db);
/* What was noted in the catalog of the store, of the job (NULL: of all). Where it cannot be read, in time too, *out has
 * what came. */
void listed_read(const char *store, const char *job, struct listings *out);
/* Brings the table in line with the store: reads what is not noted or does not hold, forgets what is gone. *stop ends it
 * early. */
int listed_fill(struct sqlite3 *db, const char *store, const atomic_bool *stop, struct err *err);

#endif
