#include "catalog/catalog_db.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "store/catalog/database.h"
#include "store/catalog/listed.h"
#include "store/catalog/recovered.h"
#include "store/read/repo.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CATALOG_VERSION = 1 };

static const char settings[] = "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=OFF;";

/* What is there already is only read: who opens it waits for no reader. */
static const char schema[] =
	"CREATE TABLE IF NOT EXISTS checkpoint(job TEXT NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL,"
	" bytes INTEGER, files INTEGER, world INTEGER, committed_ns INTEGER, verified_ns INTEGER, health INTEGER,"
	" PRIMARY KEY(job, epoch, step)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS event(id INTEGER PRIMARY KEY, at_ns INTEGER, job TEXT, epoch INTEGER, step INTEGER,"
	" kind TEXT, text TEXT);"
	"CREATE TABLE IF NOT EXISTS epoch(job TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;";

const char *catalog_db_why(const struct catalog_db *db)
{
	return db->db ? sqlite3_errmsg(db->db) : "closed";
}

static void complain(const struct catalog_db *db, const char *what)
{
	log_warn("catalog: %s: %s (checkpoints are not affected)", what, catalog_db_why(db));
}

/* ---- what failed ----------------------------------------------------------------------------------------------- */

/* Of the last call. What is not known to pass is a file that cannot be used. */
static int failure(const struct catalog_db *db)
{
	switch (db->db ? sqlite3_errcode(db->db) : SQLITE_NOMEM) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_NOMEM:
	case SQLITE_IOERR:
	case SQLITE_FULL:
	case SQLITE_PROTOCOL:
		return -EIO;
	case SQLITE_CANTOPEN: /* no descriptor left, a store that is not there now; or a file that is not ours */
		return sqlite3_system_errno(db->db) == EACCES || database_is_odd(db->db) ? -EBADMSG : -EIO;
	default:
		return -EBADMSG;
	}
}

/* ---- one statement --------------------------------------------------------------------------------------------- */

static int64_t first_column(const struct catalog_db *db, sqlite3_stmt *stmt, int64_t absent)
{
	int rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW && sqlite3_column_type(stmt, 0) != SQLITE_NULL)
		return sqlite3_column_int64(stmt, 0);
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		complain(db, "write");
	return absent;
}

int64_t catalog_db_run(struct catalog_db *db, int64_t absent, const char *sql, const char *format,
		       const union catalog_arg *args)
{
	sqlite3_stmt *stmt;
	if (failpoint("catalog.query", NULL) || !db->db)
		return absent;
	if (sqlite3_prepare_v2(db->db, sql, -1, &stmt, NULL) != SQLITE_OK) {
		complain(db, "prepare");
		return absent;
	}
	for (int i = 0; format[i]; i++) {
		if (format[i] == 's')
			sqlite3_bind_text(stmt, i + 1, args[i].s, -1, SQLITE_TRANSIENT);
		else
			sqlite3_bind_int64(stmt, i + 1, args[i].i);
	}
	int64_t value = first_column(db, stmt, absent);
	sqlite3_finalize(stmt);
	return value;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int read_version(struct catalog_db *db, int64_t *version)
{
	sqlite3_stmt *stmt;
	if (sqlite3_prepare_v2(db->db, "PRAGMA user_version", -1, &stmt, NULL) != SQLITE_OK)
		return failure(db);
	int rc = sqlite3_step(stmt) == SQLITE_ROW ? 0 : failure(db);
	*version = rc ? 0 : sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return rc;
}

static int prepare(struct catalog_db *db)
{
	int64_t version = 0;
	int rc = read_version(db, &version);
	if (rc)
		return rc;
	if (version != 0 && version != CATALOG_VERSION)
		return -EBADMSG;
	if (sqlite3_exec(db->db, settings, NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_exec(db->db, schema, NULL, NULL, NULL) != SQLITE_OK || listed_prepare(db->db) ||
	    recovered_prepare(db->db) ||
	    (!version && sqlite3_exec(db->db, "PRAGMA user_version=1", NULL, NULL, NULL) != SQLITE_OK))
		return failure(db);
	return 0;
}

static int open_file(struct catalog_db *db)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	if (database_open(db->path, flags, &db->db) != SQLITE_OK)
		return failure(db);
	sqlite3_busy_timeout(db->db, CATALOG_BUSY_MS);
	return prepare(db);
}

static void close_file(struct catalog_db *db)
{
	sqlite3_close(db->db);
	db->db = NULL;
}

/* What it has of what was said is not known. */
static int open_anew(struct catalog_db *db)
{
	int rc = open_file(db);
	db->renewed |= !rc;
	return rc;
}

/* The journal first: without the file that it belongs to it would be played back into the next one. */
static int make_anew(struct catalog_db *db)
{
	AUTO_FREE char *journal = NULL;
	log_warn("catalog: %s cannot be used (%s): rebuilding it", db->path, catalog_db_why(db));
	close_file(db);
	if (asprintf(&journal, "%s-journal", db->path) < 0 || (unlink(journal) && errno != ENOENT))
		return -EIO;
	unlink(db->path);
	db->mended = true;
	return open_anew(db);
}

int catalog_db_open(struct catalog_db *db, char *path)
{
	*db = (struct catalog_db){.path = path};
	int rc = open_file(db);
	return rc == -EBADMSG ? make_anew(db) : rc;
}

void catalog_db_close(struct catalog_db *db)
{
	close_file(db);
	free(db->path);
	db->path = NULL;
}

/* ---- staying --------------------------------------------------------------------------------------------------- */

static bool has_moved(struct catalog_db *db)
{
	int moved = 0;
	return sqlite3_file_control(db->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

bool catalog_db_damaged(const struct catalog_db *db)
{
	int code = sqlite3_errcode(db->db);
	return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

/* What would be made where no repository is any more would keep others from making one there. */
static bool is_in_store(const struct catalog_db *db)
{
	AUTO_FREE char *mark = NULL;
	int folder = (int)(strrchr(db->path, '/') - db->path);
	return asprintf(&mark, "%.*s/%s", folder, db->path, REPO_MARK) >= 0 && !access(mark, F_OK);
}

static int reopen(struct catalog_db *db)
{
	close_file(db);
	int rc = is_in_store(db) ? open_anew(db) : -ENOENT;
	if (rc == -EBADMSG && !db->mended)
		rc = make_anew(db);
	if (rc)
		close_file(db); /* and again with the next statement */
	return rc;
}

int catalog_db_keep(struct catalog_db *db)
{
	if (!db->db)
		return reopen(db);
	if (catalog_db_damaged(db) && !db->mended)
		return make_anew(db);
	if (!has_moved(db))
		return 0;
	log_warn("catalog: %s was deleted or replaced", db->path);
	int rc = reopen(db);
	if (rc)
		log_warn("catalog: %s cannot be opened now (%s): dropping entries until it can", db->path,
			 err_name(rc));
	return rc;
}

void catalog_db_write(struct catalog_db *db, const char *sql, const char *format, const union catalog_arg *args)
{
	if (catalog_db_keep(db))
		return;
	catalog_db_run(db, 0, sql, format, args);
	if (catalog_db_damaged(db) && !db->mended && !catalog_db_keep(db))
		catalog_db_run(db, 0, sql, format, args);
}
