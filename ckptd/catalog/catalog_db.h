/* The file of the catalog: opening it, and one statement at a time. A reader (`ckpt list`, or another program) holds a
 * lock for a moment: a file that is busy is waited for, not broken. One that is damaged, or of another version, is
 * deleted and made anew, once. If the file was deleted or replaced under us, this is noticed before the next statement:
 * it is made anew, or the new one is taken. Its writers may be killed at any time: a rollback journal lies beside it, out
 * of which whoever opens it next for writing restores it. There is no fsync: after a power cut any page may be missing.
 * Used by one thread at a time. */
#ifndef CKPTD_CATALOG_CATALOG_DB_H
#define CKPTD_CATALOG_CATALOG_DB_H

#include <stdbool.h>
#include <stdint.h>

/* Longer than our own readers hold it (store/catalog/catalog_view.h), shorter than its end is waited for
 * (CATALOG_CLOSE_MS). */
enum { CATALOG_BUSY_MS = 3000, CATALOG_ARGS_MAX = 8 };

struct catalog_db {
	struct sqlite3 *db; /* NULL: closed, or it cannot be opened now */
	char *path;         /* owned */
	bool mended;        /* made anew because of damage, by this incarnation */
	bool renewed; /* another file than before: what stood in it is to be written again; who does that resets it */
};

union catalog_arg {
	char *s;
	int64_t i;
};

/* Takes the path, on failure too (catalog_db_close). 0, -EBUSY: held by somebody for too long; -EBADMSG: no file that is
 * one can be had; -EIO. */
int catalog_db_open(struct catalog_db *db, char *path);
void catalog_db_close(struct catalog_db *db);
/* Looks whether it is still the file that stands there, and whole; to be called before it is used. 0 or as
 * catalog_db_open(). */
int catalog_db_keep(struct catalog_db *db);
/* The first column of the first row, or `absent`. format: a letter per argument: s text, i int64. Where it fails there is
 * a warning. */
int64_t catalog_db_run(struct catalog_db *db, int64_t absent, const char *sql, const char *format,
		       const union catalog_arg *args);
/* The same, to the file as catalog_db_keep() has it; where that is found damaged, to the one that is made in its place. */
void catalog_db_write(struct catalog_db *db, const char *sql, const char *format, const union catalog_arg *args);
/* The last call has found it damaged. */
bool catalog_db_damaged(const struct catalog_db *db);
/* What has failed last, in words. */
const char *catalog_db_why(const struct catalog_db *db);

#endif
