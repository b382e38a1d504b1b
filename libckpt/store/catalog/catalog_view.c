#include "store/catalog/catalog_view.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/catalog/database.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_MS = 1000, BUSY_MS = 100, OPS_BETWEEN_LOOKS = 10000 };

static int too_late(void *arg)
{
	return clock_now() > *(const uint64_t *)arg;
}

static int open_file(struct catalog_view *view, const char *path, int flags)
{
	flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
	if (database_open(path, flags, &view->db) != SQLITE_OK) {
		catalog_view_close(view);
		return SQLITE_CANTOPEN;
	}
	sqlite3_extended_result_codes(view->db, 1);
	sqlite3_busy_timeout(view->db, BUSY_MS);
	sqlite3_db_config(view->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(view->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_progress_handler(view->db, OPS_BETWEEN_LOOKS, too_late, &view->deadline);
	return sqlite3_exec(view->db, "SELECT 1 FROM sqlite_master", NULL, NULL, NULL);
}

/* The path as a URI that says so: what is not plain in one as %XX. NULL: no memory. */
static char *as_it_is(const char *path)
{
	static const char head[] = "file:", tail[] = "?immutable=1";
	size_t size = sizeof(head) + 3 * strlen(path) + sizeof(tail), at = sizeof(head) - 1;
	char *uri = malloc(size);
	if (!uri)
		return NULL;
	memcpy(uri, head, at);
	for (; *path; path++)
		at += (size_t)snprintf(uri + at, size - at, strchr("%?#", *path) ? "%%%02X" : "%c",
				       (unsigned char)*path);
	memcpy(uri + at, tail, sizeof(tail));
	return uri;
}

/* Its writer was killed, and nobody has come since who may restore it out of its journal: most of what was not to be stands only there. */
static void open_left_behind(struct catalog_view *view, const char *path)
{
	AUTO_FREE char *uri = as_it_is(path);
	catalog_view_close(view);
	if (uri)
		open_file(view, uri, SQLITE_OPEN_URI);
}

void catalog_view_open(struct catalog_view *view, const char *store)
{
	AUTO_FREE char *path = NULL, *root = realpath(store, NULL); /* what is opened below may not be a link */
	*view = (struct catalog_view){.deadline = clock_deadline(READ_MS * CLOCK_NS_PER_MS)};
	if (!root || asprintf(&path, "%s/%s", root, CATALOG_FILE) < 0)
		return;
	if (open_file(view, path, 0) == SQLITE_READONLY_ROLLBACK)
		open_left_behind(view, path);
}

void catalog_view_close(struct catalog_view *view)
{
	sqlite3_close(view->db);
	view->db = NULL;
}
