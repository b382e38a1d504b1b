#include "store/catalog/recovered.h"

#include "store/catalog/catalog_view.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int recovered_prepare(sqlite3 *db)
{
	const char *sql =
		"CREATE TABLE IF NOT EXISTS recovery(id INTEGER PRIMARY KEY, at_ns INTEGER, job TEXT NOT NULL,"
		" node TEXT NOT NULL, json TEXT NOT NULL)";
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EIO;
}

/* at_ns, job, node, json. 1: not one that was written here. */
static int parse_row(sqlite3_stmt *stmt, struct recovered *r)
{
	const char *job = (const char *)sqlite3_column_text(stmt, 1),
		   *node = (const char *)sqlite3_column_text(stmt, 2);
	const char *json = (const char *)sqlite3_column_text(stmt, 3);
	*r = (struct recovered){.at_ns = (uint64_t)sqlite3_column_int64(stmt, 0)};
	if (!job || !node || !json || sqlite3_column_bytes(stmt, 3) > RECOVERED_JSON_MAX ||
	    name_check("job", job, NAME_JOB_MAX, NULL) || name_check("node", node, NAME_NODE_MAX, NULL))
		return 1;
	snprintf(r->job, sizeof(r->job), "%s", job);
	snprintf(r->node, sizeof(r->node), "%s", node);
	r->json = strdup(json);
	return r->json ? 0 : -ENOMEM;
}

static int load(sqlite3_stmt *stmt, struct recovered_list *out)
{
	int step;
	out->list = calloc(RECOVERED_MAX, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	while ((step = sqlite3_step(stmt)) == SQLITE_ROW && out->n < RECOVERED_MAX) {
		int rc = parse_row(stmt, &out->list[out->n]);
		if (rc < 0)
			return rc;
		out->n += rc == 0;
	}
	return step == SQLITE_DONE || step == SQLITE_ROW ? 0 : -EIO;
}

int recovered_read(const char *store, const char *job, struct recovered_list *out)
{
	struct catalog_view view;
	sqlite3_stmt *stmt = NULL;
	int rc = -ENOENT;
	*out = (struct recovered_list){0};
	catalog_view_open(&view, store);
	const char *sql = "SELECT at_ns, job, node, json FROM recovery WHERE ?1 IS NULL OR job=?1 ORDER BY at_ns, id";
	if (view.db && sqlite3_prepare_v2(view.db, sql, -1, &stmt, NULL) == SQLITE_OK) {
		if (job)
			sqlite3_bind_text(stmt, 1, job, -1, SQLITE_STATIC);
		rc = load(stmt, out);
	}
	sqlite3_finalize(stmt);
	catalog_view_close(&view);
	return rc;
}

void recovered_free(struct recovered_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->list[i].json);
	free(list->list);
	*list = (struct recovered_list){0};
}
