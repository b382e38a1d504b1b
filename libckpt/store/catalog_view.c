#include "store/catalog_view.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

enum { READ_MS = 1000, BUSY_MS = 100, OPS_BETWEEN_LOOKS = 10000 };

static int too_late(void *arg)
{
	return clock_now() > *(const uint64_t *)arg;
}

void catalog_view_open(struct catalog_view *view, const char *store)
{
	AUTO_FREE char *path = NULL, *root = realpath(store, NULL); /* what is opened below may not be a link */
	*view = (struct catalog_view){.deadline = clock_deadline(READ_MS * CLOCK_NS_PER_MS)};
	if (!root || asprintf(&path, "%s/%s", root, CATALOG_FILE) < 0)
		return;
	int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
	if (sqlite3_open_v2(path, &view->db, flags, NULL) != SQLITE_OK) {
		catalog_view_close(view);
		return;
	}
	sqlite3_busy_timeout(view->db, BUSY_MS);
	sqlite3_db_config(view->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(view->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_progress_handler(view->db, OPS_BETWEEN_LOOKS, too_late, &view->deadline);
}

void catalog_view_close(struct catalog_view *view)
{
	sqlite3_close(view->db);
	view->db = NULL;
}
