/* The catalog, for reading: the SQLite database beside the checkpoints, which the daemon writes. It is a cache, in a file that a crash may
 * leave in any state and that another user may have written: what cannot be read, in time too, is as if it were not there. */
#ifndef CKPT_STORE_CATALOG_VIEW_H
#define CKPT_STORE_CATALOG_VIEW_H

#include <stdint.h>

#define CATALOG_FILE "catalog.sqlite"

struct sqlite3;

struct catalog_view {
	struct sqlite3 *db; /* NULL: there is none that can be opened */
	uint64_t deadline;
};

/* Stays where it is until it is closed. */
void catalog_view_open(struct catalog_view *view, const char *store);
void catalog_view_close(struct catalog_view *view);

#endif
