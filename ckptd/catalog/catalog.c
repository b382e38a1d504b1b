#include "catalog/catalog.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "catalog/catalog_db.h"
#include "runtime/room.h"
#include "store/catalog/recovered.h"
#include "store/read/repo.h"

#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum { CATALOG_EVENTS_MAX = 100000 };

struct known_epoch {
	struct list link;
	char job[NAME_JOB_MAX];
	uint32_t last;
};

struct catalog {
	struct catalog_db db; /* the writer's while anything is queued, else the caller's */
	struct list epochs;
	struct pool *writer; /* one thread: what is queued is written in order */
	unsigned queued;     /* submitted and not yet known to be written */
	unsigned dropped;    /* since the queue was last taken up */
	char *store;
	struct work listing; /* queued while `filling` */
	bool filling;
	uint64_t filled_ns; /* when it was queued last; 0: not in line with the store yet */
	atomic_bool closing;
	atomic_bool renewed; /* the writer has another file than before: it lacks what we know */
	atomic_bool behind;  /* the next listing begins with what the store has */
};

/* One statement with its arguments. */
struct statement {
	struct work work;
	struct catalog *catalog;
	const char *sql;
	const char *format; /* a letter per argument: s text, i int64 */
	union catalog_arg args[CATALOG_ARGS_MAX];
};

/* At once, on the caller's thread: while nothing is queued. */
static int64_t query(struct catalog *c, int64_t absent, const char *sql, const char *format, ...)
{
	union catalog_arg args[CATALOG_ARGS_MAX];
	va_list ap;
	va_start(ap, format);
	for (int i = 0; format[i]; i++) {
		if (format[i] == 's')
			args[i].s = va_arg(ap, char *);
		else
			args[i].i = va_arg(ap, int64_t);
	}
	va_end(ap);
	return catalog_db_run(&c->db, absent, sql, format, args);
}

/* ---- in line with the store ------------------------------------------------------------------------------------ */

static int sync_rows(struct catalog *c, const struct checkpoint_ref *refs, size_t n)
{
	sqlite3 *db = c->db.db;
	const char *begin = "CREATE TEMP TABLE IF NOT EXISTS seen(job TEXT, epoch INTEGER, step INTEGER,"
			    " PRIMARY KEY(job, epoch, step)); BEGIN IMMEDIATE; DELETE FROM seen;";
	if (sqlite3_exec(db, begin, NULL, NULL, NULL) != SQLITE_OK)
		return -EIO;
	for (size_t i = 0; i < n; i++) {
		if (refs[i].state != CHECKPOINT_COMMITTED)
			continue;
		int64_t epoch = refs[i].id.epoch, step = (int64_t)refs[i].id.step;
		query(c, 0, "INSERT OR IGNORE INTO seen VALUES(?,?,?)", "sii", refs[i].job, epoch, step);
		query(c, 0, "INSERT OR IGNORE INTO checkpoint(job, epoch, step, committed_ns) VALUES(?,?,?,?)", "siii",
		      refs[i].job, epoch, step, (int64_t)refs[i].committed_ns);
	}
	if (sqlite3_get_autocommit(db))
		return -EIO; /* a row could not be taken, and what was taken is given back with it */
	const char *forget =
		"DELETE FROM checkpoint WHERE (job, epoch, step) NOT IN (SELECT job, epoch, step FROM seen);"
		"COMMIT;";
	return sqlite3_exec(db, forget, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EIO;
}

static int sync_store(struct catalog *c, struct err *err)
{
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	int rc = repo_open(c->store, &repo, err);
	if (rc)
		return rc;
	rc = repo_scan(&repo, NULL, &refs, &n, err);
	repo_close(&repo);
	if (rc)
		return rc;
	rc = sync_rows(c, refs, n);
	if (rc && catalog_db_damaged(&c->db) && !catalog_db_keep(&c->db))
		rc = sync_rows(c, refs, n);
	if (rc)
		err_set(err, rc, "catalog %s: %s", c->db.path, catalog_db_why(&c->db));
	if (rc && c->db.db && !sqlite3_get_autocommit(c->db.db)) /* else all that follows is part of it */
		sqlite3_exec(c->db.db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

/* ---- the queue ------------------------------------------------------------------------------------------------- */

/* On the writer's thread. */
static void notice_renewal(struct catalog *c)
{
	if (c->db.renewed)
		atomic_store(&c->renewed, true);
	c->db.renewed = false;
}

static void write_queued(struct work *work)
{
	struct statement *st = list_entry(work, struct statement, work);
	catalog_db_write(&st->catalog->db, st->sql, st->format, st->args);
	notice_renewal(st->catalog);
}

static void statement_free(struct statement *st)
{
	for (int i = 0; st->format[i]; i++)
		if (st->format[i] == 's')
			free(st->args[i].s);
	free(st);
}

static void written(struct work *work)
{
	struct statement *st = list_entry(work, struct statement, work);
	st->catalog->queued--;
	statement_free(st);
}

static bool has_room(struct catalog *c)
{
	pool_poll(c->writer);
	if (c->queued < CATALOG_QUEUE_MAX) {
		if (c->dropped)
			log_warn("catalog: %u entries were dropped while the disk did not take them", c->dropped);
		c->dropped = 0;
		return true;
	}
	if (!c->dropped++)
		log_warn("catalog: %d entries wait for the disk: dropping what follows (checkpoints are not affected)",
			 CATALOG_QUEUE_MAX);
	return false;
}

static struct statement *statement_new(struct catalog *c, const char *sql, const char *format, va_list ap)
{
	struct statement *st = calloc(1, sizeof(*st));
	bool whole = st != NULL;
	if (!st)
		return NULL;
	*st = (struct statement){
		.work = {.run = write_queued, .done = written}, .catalog = c, .sql = sql, .format = format};
	for (int i = 0; format[i]; i++) {
		if (format[i] == 's') {
			st->args[i].s = strdup(va_arg(ap, const char *));
			whole &= st->args[i].s != NULL;
		} else {
			st->args[i].i = va_arg(ap, int64_t);
		}
	}
	if (whole)
		return st;
	statement_free(st);
	return NULL;
}

static void fill_listings(struct work *work)
{
	struct catalog *c = list_entry(work, struct catalog, listing);
	struct err err = {{0}};
	int rc = failpoint("catalog.list", NULL);
	if (!rc)
		rc = catalog_db_keep(&c->db);
	notice_renewal(c);
	if (!rc && atomic_exchange(&c->behind, false)) {
		rc = sync_store(c, &err);
		if (rc)
			atomic_store(&c->behind, true); /* with the next one */
	}
	if (!rc)
		rc = listed_fill(c->db.db, c->store, &c->closing, &err);
	if (rc)
		log_warn("catalog: what lists say is not noted: %s (they look at each checkpoint)",
			 err.text[0] ? err.text : err_name(rc));
}

static void listings_filled(struct work *work)
{
	struct catalog *c = list_entry(work, struct catalog, listing);
	c->queued--;
	c->filling = false;
}

static void post_listings(struct catalog *c)
{
	if (c->filling)
		return;
	c->filling = true;
	c->filled_ns = clock_now();
	c->listing = (struct work){.run = fill_listings, .done = listings_filled};
	c->queued++;
	pool_submit(c->writer, &c->listing);
}

static const char epoch_sql[] =
	"INSERT INTO epoch(job, last) VALUES(?,?) ON CONFLICT(job) DO UPDATE SET last=max(last, excluded.last)";

/* The last epochs of all jobs: one entry of the queue, so that what is said next still has room. */
struct recall {
	struct work work;
	struct catalog *catalog;
	size_t n;
	struct {
		char job[NAME_JOB_MAX];
		int64_t last;
	} of[];
};

static void write_recall(struct work *work)
{
	const struct recall *r = list_entry(work, struct recall, work);
	struct catalog *c = r->catalog;
	int rc = catalog_db_keep(&c->db);
	notice_renewal(c);
	if (rc)
		return; /* once it can be opened all is written again */
	bool whole = sqlite3_exec(c->db.db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK;
	for (size_t i = 0; whole && i < r->n; i++) {
		query(c, 0, epoch_sql, "si", r->of[i].job, r->of[i].last);
		whole = sqlite3_errcode(c->db.db) == SQLITE_OK;
	}
	if (whole && sqlite3_exec(c->db.db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
		return;
	log_warn("catalog: the last epochs are not noted: %s", catalog_db_why(&c->db));
	if (!sqlite3_get_autocommit(c->db.db))
		sqlite3_exec(c->db.db, "ROLLBACK", NULL, NULL, NULL);
	atomic_store(&c->renewed, true); /* with the next entry */
}

static void recall_written(struct work *work)
{
	struct recall *r = list_entry(work, struct recall, work);
	r->catalog->queued--;
	free(r);
}

static void post_recall(struct catalog *c)
{
	size_t n = 0;
	list_for(node, &c->epochs)
		n++;
	struct recall *r = calloc(1, sizeof(*r) + n * sizeof(r->of[0]));
	if (!r) {
		atomic_store(&c->renewed, true); /* with the next entry */
		return;
	}
	*r = (struct recall){.work = {.run = write_recall, .done = recall_written}, .catalog = c};
	list_for(node, &c->epochs) {
		const struct known_epoch *known = list_entry(node, struct known_epoch, link);
		memcpy(r->of[r->n].job, known->job, sizeof(known->job));
		r->of[r->n++].last = known->last;
	}
	c->queued++;
	pool_submit(c->writer, &r->work);
}

/* History is gone with the old file; what is known otherwise is written again. */
static void catch_up(struct catalog *c)
{
	atomic_store(&c->behind, true);
	post_listings(c);
	post_recall(c);
}

static void post(struct catalog *c, const char *sql, const char *format, ...)
{
	if (!c || !has_room(c))
		return;
	if (atomic_exchange(&c->renewed, false))
		catch_up(c);
	if (c->filled_ns && clock_now() - c->filled_ns > CATALOG_LISTED_NS)
		post_listings(c);
	va_list ap;
	va_start(ap, format);
	struct statement *st = statement_new(c, sql, format, ap);
	va_end(ap);
	if (!st)
		return;
	c->queued++;
	pool_submit(c->writer, &st->work);
}

int catalog_flush(struct catalog *c, uint64_t deadline)
{
	while (c && c->queued) {
		struct pollfd fd = {.fd = pool_event_fd(c->writer), .events = POLLIN};
		if (!pool_poll(c->writer) && !poll(&fd, 1, clock_ms_until(deadline)))
			return -ETIMEDOUT;
	}
	return 0;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static struct known_epoch *find_epoch(struct catalog *c, const char *job)
{
	list_for(node, &c->epochs) {
		struct known_epoch *known = list_entry(node, struct known_epoch, link);
		if (!strcmp(known->job, job))
			return known;
	}
	return NULL;
}

static void know_epoch(struct catalog *c, const char *job, uint32_t epoch)
{
	struct known_epoch *known = find_epoch(c, job);
	if (!known) {
		known = calloc(1, sizeof(*known));
		if (!known)
			return;
		snprintf(known->job, sizeof(known->job), "%s", job);
		list_push(&c->epochs, &known->link);
	}
	known->last = epoch > known->last ? epoch : known->last;
}

static void load_epochs(struct catalog *c)
{
	sqlite3_stmt *stmt;
	if (sqlite3_prepare_v2(c->db.db, "SELECT job, last FROM epoch", -1, &stmt, NULL) != SQLITE_OK) {
		log_warn("catalog: the last epochs cannot be read: %s", catalog_db_why(&c->db));
		return;
	}
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		const char *job = (const char *)sqlite3_column_text(stmt, 0);
		int64_t last = sqlite3_column_int64(stmt, 1);
		if (job && last >= 0 && last <= UINT32_MAX)
			know_epoch(c, job, (uint32_t)last);
	}
	sqlite3_finalize(stmt);
}

int catalog_open(const char *store, struct catalog **out, struct err *err)
{
	struct catalog *c = calloc(1, sizeof(*c));
	if (c) {
		list_init(&c->epochs);
		c->store = strdup(store);
	}
	char *path = NULL;
	AUTO_FREE char *root = realpath(store, NULL); /* what is opened below may not be a link */
	if (!c || !c->store || asprintf(&path, "%s/%s", root ? root : store, CATALOG_FILE) < 0) {
		if (c)
			free(c->store);
		free(c);
		return err_set(err, -ENOMEM, "no memory for the catalog");
	}
	int rc = catalog_db_open(&c->db, path);
	c->db.renewed = false; /* nothing is known yet that it could lack */
	if (rc)
		err_set(err, rc, "catalog %s: %s", path, catalog_db_why(&c->db));
	else
		rc = pool_new(1, &c->writer, err);
	if (rc) {
		catalog_close(c);
		return rc;
	}
	load_epochs(c);
	*out = c;
	return 0;
}

void catalog_close(struct catalog *c)
{
	if (!c)
		return;
	atomic_store(&c->closing, true);
	if (catalog_flush(c, clock_deadline(CATALOG_CLOSE_MS * CLOCK_NS_PER_MS))) {
		log_warn("catalog: %u entries are not written within %d ms: leaving them", c->queued, CATALOG_CLOSE_MS);
		return; /* the thread still uses all of it */
	}
	pool_free(c->writer);
	catalog_db_close(&c->db);
	for (struct list *node; (node = list_pop(&c->epochs));)
		free(list_entry(node, struct known_epoch, link));
	free(c->store);
	free(c);
}

int catalog_sync(struct catalog *c, struct err *err)
{
	if (!c)
		return 0;
	int rc = catalog_flush(c, clock_deadline(CATALOG_CLOSE_MS * CLOCK_NS_PER_MS));
	if (rc)
		return err_set(err, rc, "catalog %s: what is queued is not written in time", c->db.path);
	rc = sync_store(c, err);
	c->filled_ns = clock_now();
	atomic_store(&c->behind, rc != 0); /* then with the next listing */
	if (!rc)
		post_listings(c);
	return rc;
}

void catalog_committed(struct catalog *c, const char *job, struct step_id id, uint64_t bytes, uint32_t files,
		       uint32_t world)
{
	post(c,
	     "INSERT OR REPLACE INTO checkpoint(job, epoch, step, bytes, files, world, committed_ns)"
	     " VALUES(?,?,?,?,?,?,?)",
	     "siiiiii", job, (int64_t)id.epoch, (int64_t)id.step, (int64_t)bytes, (int64_t)files, (int64_t)world,
	     (int64_t)clock_wall());
}

void catalog_verified(struct catalog *c, const char *job, struct step_id id, int rc)
{
	post(c, "UPDATE checkpoint SET verified_ns=?, health=? WHERE job=? AND epoch=? AND step=?", "iisii",
	     (int64_t)clock_wall(), (int64_t)(rc ? -1 : 1), job, (int64_t)id.epoch, (int64_t)id.step);
}

void catalog_removed(struct catalog *c, const char *job, struct step_id id)
{
	post(c, "DELETE FROM checkpoint WHERE job=? AND epoch=? AND step=?", "sii", job, (int64_t)id.epoch,
	     (int64_t)id.step);
}

void catalog_event(struct catalog *c, const char *job, struct step_id id, const char *kind, const char *text)
{
	post(c, "INSERT INTO event(at_ns, job, epoch, step, kind, text) VALUES(?,?,?,?,?,?)", "isiiss",
	     (int64_t)clock_wall(), job, (int64_t)id.epoch, (int64_t)id.step, kind, text);
	post(c, "DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?", "i", (int64_t)CATALOG_EVENTS_MAX);
}

void catalog_recovery(struct catalog *c, const char *job, const char *node, uint64_t at_ns, const char *json)
{
	post(c, "INSERT INTO recovery(at_ns, job, node, json) VALUES(?,?,?,?)", "isss", (int64_t)at_ns, job, node,
	     json);
	post(c, "DELETE FROM recovery WHERE id <= (SELECT max(id) FROM recovery) - ?", "i", (int64_t)RECOVERED_MAX);
}

void catalog_epoch(struct catalog *c, const char *job, uint32_t epoch)
{
	if (c)
		know_epoch(c, job, epoch);
	post(c, epoch_sql, "si", job, (int64_t)epoch);
}

uint32_t catalog_last_epoch(struct catalog *c, const char *job)
{
	const struct known_epoch *known = c ? find_epoch(c, job) : NULL;
	return known ? known->last : 0;
}
