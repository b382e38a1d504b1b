#include "store/catalog/listed.h"

#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_AT_ONCE = 256 };

/* ---- one row --------------------------------------------------------------------------------------------------- */

/* The numbers of a listing, as they stand in the row: job, epoch and step are its key. */
struct numbers {
	uint64_t state, bytes, stored, files, ranks, nodes, began, pinned, mark, committed_ns, verified_ns;
	struct listing_stamp stamp;
};

struct row {
	struct numbers numbers;
	struct digest seal;
};

/* Of the key as well: a row that stands where another should be is none. */
static struct digest seal(const struct listing *l, const struct numbers *numbers)
{
	char text[NAME_JOB_MAX + 48 + sizeof(*numbers)];
	int len = snprintf(text, sizeof(text), "%s %u %" PRIu64 " ", l->job, l->id.epoch, l->id.step);
	memcpy(text + len, numbers, sizeof(*numbers));
	return digest_bytes(text, (size_t)len + sizeof(*numbers));
}

static struct row row_of(const struct listing *l)
{
	struct row row = {.numbers = {
				  .state = l->state,
				  .bytes = l->bytes,
				  .stored = l->stored,
				  .files = l->files,
				  .ranks = l->ranks,
				  .nodes = l->nodes,
				  .began = l->began,
				  .pinned = l->pinned,
				  .mark = l->mark,
				  .committed_ns = l->committed_ns,
				  .verified_ns = l->verified_ns,
				  .stamp = l->stamp,
			  }};
	row.seal = seal(l, &row.numbers);
	return row;
}

/* job, epoch, step, row. False: not one that was written here. */
static bool parse_row(sqlite3_stmt *stmt, struct listing *l)
{
	struct row row;
	const char *job = (const char *)sqlite3_column_text(stmt, 0);
	const void *data = sqlite3_column_blob(stmt, 3);
	*l = (struct listing){.id = {.epoch = (uint32_t)sqlite3_column_int64(stmt, 1),
				     .step = (uint64_t)sqlite3_column_int64(stmt, 2)}};
	if (!job || !data || (size_t)sqlite3_column_bytes(stmt, 3) != sizeof(row) ||
	    name_check("job", job, NAME_JOB_MAX, NULL))
		return false;
	snprintf(l->job, sizeof(l->job), "%s", job);
	memcpy(&row, data, sizeof(row));
	const struct numbers *n = &row.numbers;
	if (!digest_equal(row.seal, seal(l, n)))
		return false;
	l->state = n->state == LISTING_VERIFIED ? LISTING_VERIFIED : LISTING_COMMITTED;
	l->known = true;
	l->bytes = n->bytes;
	l->stored = n->stored;
	l->files = n->files;
	l->ranks = (uint32_t)n->ranks;
	l->nodes = (uint32_t)n->nodes;
	l->began = (uint32_t)n->began;
	l->pinned = n->pinned;
	l->mark = n->mark <= LISTING_UNHEALTHY ? (enum listing_mark)n->mark : LISTING_NO_MARK;
	l->committed_ns = n->committed_ns;
	l->verified_ns = n->verified_ns;
	l->stamp = n->stamp;
	return true;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static int add(struct listings *out, size_t *cap, const struct listing *l)
{
	if (out->n == *cap) {
		size_t wanted = *cap ? *cap * 2 : 64;
		struct listing *list = reallocarray(out->list, wanted, sizeof(*list));
		if (!list)
			return -ENOMEM;
		out->list = list;
		*cap = wanted;
	}
	out->list[out->n++] = *l;
	return 0;
}

static void load(sqlite3 *db, const char *job, struct listings *out)
{
	sqlite3_stmt *stmt;
	size_t cap = 0;
	*out = (struct listings){0};
	const char *sql = job ? "SELECT job, epoch, step, row FROM listing WHERE job=? ORDER BY epoch, step"
			      : "SELECT job, epoch, step, row FROM listing ORDER BY job, epoch, step";
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		return;
	if (job)
		sqlite3_bind_text(stmt, 1, job, -1, SQLITE_STATIC);
	struct listing l;
	while (sqlite3_step(stmt) == SQLITE_ROW)
		if (parse_row(stmt, &l) && add(out, &cap, &l))
			break;
	sqlite3_finalize(stmt);
}

void listed_read(const char *store, const char *job, struct listings *out)
{
	struct catalog_view view;
	*out = (struct listings){0};
	catalog_view_open(&view, store);
	if (view.db)
		load(view.db, job, out);
	catalog_view_close(&view);
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

int listed_prepare(sqlite3 *db)
{
	const char *sql =
		"CREATE TABLE IF NOT EXISTS listing(job TEXT NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL,"
		" row BLOB NOT NULL, PRIMARY KEY(job, epoch, step)) WITHOUT ROWID";
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EIO;
}

static int change(sqlite3 *db, const char *sql, const char *job, struct step_id id, const struct row *row)
{
	sqlite3_stmt *stmt;
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		return -EIO;
	sqlite3_bind_text(stmt, 1, job, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, id.epoch);
	sqlite3_bind_int64(stmt, 3, (sqlite3_int64)id.step);
	if (row)
		sqlite3_bind_blob(stmt, 4, row, sizeof(*row), SQLITE_STATIC);
	sqlite3_step(stmt);
	return sqlite3_finalize(stmt) == SQLITE_OK ? 0 : -EIO;
}

/* What is well only: damage is looked at each time. */
static int note(sqlite3 *db, struct repo *repo, const struct checkpoint_ref *ref)
{
	struct listing l;
	struct err why = {0};
	if (!listing_read(repo, ref, &l, &why) || why.text[0] || l.state > LISTING_VERIFIED)
		return change(db, "DELETE FROM listing WHERE job=? AND epoch=? AND step=?", ref->job, ref->id, NULL);
	struct row row = row_of(&l);
	return change(db, "INSERT OR REPLACE INTO listing(job, epoch, step, row) VALUES(?,?,?,?)", ref->job, ref->id,
		      &row);
}

static int order_of(const struct checkpoint_ref *ref, const struct listing *l)
{
	int order = strcmp(ref->job, l->job);
	return order ? order : step_compare(ref->id, l->id);
}

/* Both in the same order. */
static int forget_gone(sqlite3 *db, const struct listings *known, const struct checkpoint_ref *refs, size_t n)
{
	int rc = 0;
	size_t r = 0;
	for (size_t i = 0; i < known->n && !rc; i++) {
		const struct listing *l = &known->list[i];
		int order = 1;
		while (r < n && (order = order_of(&refs[r], l)) < 0)
			r++;
		if (r == n || order > 0)
			rc = change(db, "DELETE FROM listing WHERE job=? AND epoch=? AND step=?", l->job, l->id, NULL);
	}
	return rc;
}

static int begin(sqlite3 *db)
{
	return sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK ? 0 : -EIO;
}

static int end(sqlite3 *db, int rc)
{
	if (sqlite3_exec(db, rc ? "ROLLBACK" : "COMMIT", NULL, NULL, NULL) != SQLITE_OK && !rc) {
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
		rc = -EIO;
	}
	return rc;
}

/* Those without a listing that holds, a few per transaction: who reads waits for no more. */
static int note_new(sqlite3 *db, struct repo *repo, const struct checkpoint_ref *refs, size_t n,
		    const atomic_bool *stop)
{
	int rc = 0;
	for (size_t i = 0; i < n && !rc && !atomic_load(stop);) {
		rc = begin(db);
		for (size_t taken = 0; i < n && taken < ROWS_AT_ONCE && !rc && !atomic_load(stop); i++) {
			if (refs[i].listing || refs[i].state != CHECKPOINT_COMMITTED)
				continue;
			rc = note(db, repo, &refs[i]);
			taken++;
		}
		rc = end(db, rc);
	}
	return rc;
}

static int fill(sqlite3 *db, struct repo *repo, const atomic_bool *stop, struct err *err)
{
	struct listings known;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	load(db, NULL, &known);
	int rc = repo_scan_known(repo, NULL, &known, &refs, &n, err);
	if (!rc) {
		rc = begin(db);
		rc = end(db, rc ? rc : forget_gone(db, &known, refs, n));
		if (!rc)
			rc = note_new(db, repo, refs, n, stop);
		if (rc)
			err_set(err, rc, "%s", sqlite3_errmsg(db));
	}
	listings_free(&known);
	return rc;
}

int listed_fill(sqlite3 *db, const char *store, const atomic_bool *stop, struct err *err)
{
	struct repo repo;
	int rc = repo_open(store, &repo, err);
	if (!rc)
		rc = fill(db, &repo, stop, err);
	repo_close(&repo);
	return rc;
}
