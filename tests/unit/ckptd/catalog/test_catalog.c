#include "catalog/catalog.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "scratch.h"
#include "store/catalog/recovered.h"
#include "store/read/repo.h"
#include "store_maker.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct step_id id = {.step = 10, .epoch = 1};

static char path[SCRATCH_MAX], file[SCRATCH_MAX + 32];
static struct catalog *catalog;
static struct err err;

static void setup(void)
{
	scratch_new(path);
	snprintf(file, sizeof(file), "%s/" CATALOG_FILE, path);
	err = (struct err){{0}};
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(catalog_open(path, &catalog, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	catalog_close(catalog);
	scratch_remove(path);
}

TestSuite(catalog, .init = setup, .fini = teardown);

/* The first column of the first row, as another program would read it; -1: no row. */
static int64_t ask(const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *stmt;
	int64_t value = -1;
	cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
	cr_assert_eq(sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
	if (sqlite3_step(stmt) == SQLITE_ROW)
		value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return value;
}

static void reopen(void)
{
	catalog_close(catalog);
	catalog = NULL;
	cr_assert_eq(catalog_open(path, &catalog, &err), 0, "%s", err.text);
}

Test(catalog, a_checkpoint_and_its_health_are_kept)
{
	catalog_committed(catalog, "main", id, 4096, 2, 4);
	cr_assert_eq(ask("SELECT bytes FROM checkpoint WHERE job='main' AND step=10 AND epoch=1"), 4096);
	catalog_verified(catalog, "main", id, 0);
	cr_assert_eq(ask("SELECT health FROM checkpoint"), 1);
	catalog_verified(catalog, "main", id, -EBADMSG);
	cr_assert_eq(ask("SELECT health FROM checkpoint"), -1);
	reopen();
	cr_assert_eq(ask("SELECT count(*) FROM checkpoint"), 1);
}

Test(catalog, what_was_removed_is_forgotten)
{
	struct step_id other = {11, 1};
	catalog_committed(catalog, "main", id, 4096, 2, 4);
	catalog_committed(catalog, "main", other, 4096, 2, 4);
	catalog_committed(catalog, "other", id, 4096, 2, 4);
	catalog_removed(catalog, "main", id);
	cr_assert_eq(ask("SELECT count(*) FROM checkpoint"), 2);
	cr_assert_eq(ask("SELECT count(*) FROM checkpoint WHERE job='main' AND step=10"), 0);
}

Test(catalog, the_last_epoch_only_rises)
{
	cr_assert_eq(catalog_last_epoch(catalog, "main"), 0u);
	catalog_epoch(catalog, "main", 5);
	catalog_epoch(catalog, "main", 3);
	reopen();
	cr_assert_eq(catalog_last_epoch(catalog, "main"), 5u);
	cr_assert_eq(catalog_last_epoch(catalog, "other"), 0u);
}

Test(catalog, text_is_text_and_no_command)
{
	catalog_event(catalog, "main", id, "kind", "'; DROP TABLE event; --");
	cr_assert_eq(ask("SELECT count(*) FROM event WHERE text LIKE '%DROP%'"), 1);
}

Test(catalog, none_is_tolerated_everywhere)
{
	catalog_committed(NULL, "main", id, 1, 1, 1);
	catalog_verified(NULL, "main", id, 0);
	catalog_removed(NULL, "main", id);
	catalog_event(NULL, "main", id, "k", "t");
	catalog_epoch(NULL, "main", 3);
	cr_assert_eq(catalog_last_epoch(NULL, "main"), 0u);
	cr_assert_eq(catalog_sync(NULL, &err), 0);
	catalog_close(NULL);
}

Test(catalog, sync_forgets_what_is_gone_and_learns_what_is_there)
{
	struct store_spec spec = {.root = path, .id = {.step = 20, .epoch = 1}};
	catalog_committed(catalog, "main", id, 1, 1, 1);
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	cr_assert_eq(catalog_sync(catalog, &err), 0, "%s", err.text);
	cr_assert_eq(ask("SELECT count(*) FROM checkpoint"), 1);
	cr_assert_eq(ask("SELECT step FROM checkpoint"), 20);
	cr_assert_eq(ask("SELECT step FROM listing"), 20);
}

Test(catalog, one_that_is_no_database_is_made_anew)
{
	catalog_close(catalog);
	scratch_write(path, CATALOG_FILE, "this is not a database, and long enough to be looked at", 56);
	catalog = NULL;
	cr_assert_eq(catalog_open(path, &catalog, &err), 0, "%s", err.text);
	catalog_epoch(catalog, "main", 2);
	cr_assert_eq(catalog_last_epoch(catalog, "main"), 2u);
}

Test(catalog, one_of_another_version_is_made_anew)
{
	sqlite3 *db;
	cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
	cr_assert_eq(sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	reopen();
	cr_assert_eq(ask("PRAGMA user_version"), 1);
}

/* Behind the header and the schema: it opens, and fails when it is used. */
Test(catalog, a_damaged_page_is_found_and_the_catalog_made_anew)
{
	struct store_spec spec = {.root = path, .id = {.step = 20, .epoch = 1}};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	for (uint64_t step = 0; step < 300; step++)
		catalog_committed(catalog, "main", (struct step_id){step, 1}, 1, 1, 1);
	catalog_close(catalog);
	catalog = NULL;
	size_t len;
	AUTO_FREE uint8_t *data = scratch_read(path, CATALOG_FILE, &len);
	cr_assert_gt(len, 2 * 4096u);
	memset(data + 4096, 0x5a, len - 4096);
	scratch_write(path, CATALOG_FILE, data, len);
	cr_assert_eq(catalog_open(path, &catalog, &err), 0, "%s", err.text);
	cr_assert_eq(catalog_sync(catalog, &err), 0, "%s", err.text);
	cr_assert_eq(ask("SELECT count(*) FROM checkpoint"), 1);
	cr_assert_eq(ask("SELECT step FROM checkpoint"), 20);
}

/* ---- others at the same file ------------------------------------------------------------------------------------ */

static sqlite3 *stranger(const char *sql)
{
	sqlite3 *db;
	cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
	cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
	return db;
}

/* Holds what keeps others from writing, for a second, as `ckpt list` does at worst. */
static void *read_for_a_second(void *arg)
{
	struct timespec second = {.tv_sec = 1};
	nanosleep(&second, NULL);
	sqlite3_close(arg);
	return NULL;
}

Test(catalog, one_that_is_being_read_is_opened_and_keeps_its_rows)
{
	struct store_spec spec = {.root = path, .id = {.step = 20, .epoch = 1}};
	pthread_t reader;
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	catalog_recovery(catalog, "main", "n0", 1, "{}");
	catalog_close(catalog);
	catalog = NULL;
	sqlite3 *db = stranger("BEGIN; SELECT * FROM recovery");
	cr_assert_eq(pthread_create(&reader, NULL, read_for_a_second, db), 0);
	cr_assert_eq(catalog_open(path, &catalog, &err), 0, "%s", err.text);
	cr_assert_eq(catalog_sync(catalog, &err), 0, "%s", err.text);
	catalog_recovery(catalog, "main", "n0", 2, "{}");
	cr_assert_eq(pthread_join(reader, NULL), 0);
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 2);
	cr_assert_eq(ask("SELECT step FROM checkpoint"), 20);
}

Test(catalog, what_is_written_while_it_is_read_is_not_dropped)
{
	pthread_t reader;
	catalog_recovery(catalog, "main", "n0", 1, "{}");
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 1);
	sqlite3 *db = stranger("BEGIN; SELECT * FROM recovery");
	cr_assert_eq(pthread_create(&reader, NULL, read_for_a_second, db), 0);
	catalog_recovery(catalog, "main", "n0", 2, "{}");
	cr_assert_eq(pthread_join(reader, NULL), 0);
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 2);
}

Test(catalog, one_that_is_locked_for_longer_is_not_deleted)
{
	catalog_recovery(catalog, "main", "n0", 1, "{}");
	catalog_close(catalog);
	catalog = NULL;
	sqlite3 *db = stranger("BEGIN EXCLUSIVE");
	cr_assert_eq(catalog_open(path, &catalog, &err), -EBUSY);
	cr_assert(strstr(err.text, "locked"), "%s", err.text);
	sqlite3_close(db);
	cr_assert_eq(catalog_open(path, &catalog, &err), 0, "%s", err.text);
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 1);
}

/* A transaction that is not finished would swallow all that is written later. */
Test(catalog, a_sync_that_fails_is_not_left_half_done)
{
	struct store_spec spec = {.root = path, .id = {.step = 20, .epoch = 1}};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	sqlite3 *db = stranger("BEGIN; SELECT * FROM recovery");
	cr_assert_lt(catalog_sync(catalog, &err), 0);
	cr_assert(strstr(err.text, "locked"), "%s", err.text);
	sqlite3_close(db);
	catalog_recovery(catalog, "main", "n0", 1, "{}");
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 1);
	cr_assert_eq(catalog_sync(catalog, &err), 0, "%s", err.text);
	cr_assert_eq(ask("SELECT step FROM checkpoint"), 20);
}

Test(catalog, one_that_was_deleted_is_made_again_with_what_is_known)
{
	struct store_spec spec = {.root = path, .id = {.step = 20, .epoch = 1}};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	cr_assert_eq(catalog_sync(catalog, &err), 0, "%s", err.text);
	catalog_epoch(catalog, "main", 7);
	cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
	cr_assert_eq(unlink(file), 0);
	catalog_recovery(catalog, "main", "n0", 1, "{}");
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 1);
	catalog_recovery(catalog, "main", "n0", 2, "{}");
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 2);
	cr_assert_eq(ask("SELECT last FROM epoch WHERE job='main'"), 7);
	cr_assert_eq(ask("SELECT step FROM checkpoint"), 20);
	cr_assert_eq(ask("SELECT step FROM listing"), 20);
}

/* Jobs that have been here, more than fit into the queue. */
static void know_many_jobs(void)
{
	char job[16];
	for (int i = 0; i < CATALOG_QUEUE_MAX + 100; i++) {
		snprintf(job, sizeof(job), "job%d", i);
		catalog_epoch(catalog, job, 7);
		if (i % 1000 == 0)
			cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
	}
	cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
}

/* All that is known is written again, and leaves room for what is said next, however soon that comes. */
Test(catalog, one_that_cannot_be_opened_for_a_while_takes_what_comes_next)
{
	char aside[SCRATCH_MAX + 48];
	snprintf(aside, sizeof(aside), "%s.aside", path);
	know_many_jobs();
	cr_assert_eq(rename(path, aside), 0);
	catalog_recovery(catalog, "main", "n0", 1, "{}");
	cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
	cr_assert_eq(rename(aside, path), 0);
	catalog_recovery(catalog, "main", "n0", 2, "{}");
	cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
	catalog_recovery(catalog, "main", "n0", 3, "{}"); /* it is open again, and that is known */
	catalog_recovery(catalog, "main", "n0", 4, "{}");
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 3);
	cr_assert_eq(ask("SELECT count(*) FROM epoch WHERE last=7"), CATALOG_QUEUE_MAX + 100);
}

Test(catalog, one_that_was_replaced_is_taken)
{
	char aside[SCRATCH_MAX + 48];
	snprintf(aside, sizeof(aside), "%s/aside", path);
	catalog_recovery(catalog, "main", "n0", 1, "{}");
	catalog_close(catalog);
	cr_assert_eq(rename(file, aside), 0);
	cr_assert_eq(catalog_open(path, &catalog, &err), 0, "%s", err.text);
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 0);
	cr_assert_eq(rename(aside, file), 0);
	catalog_recovery(catalog, "main", "n0", 2, "{}");
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 2);
}

/* Found while it is in use, and mended at once. */
Test(catalog, damage_under_us_costs_no_later_entry)
{
	size_t len;
	for (uint64_t step = 0; step < 300; step++)
		catalog_committed(catalog, "main", (struct step_id){step, 1}, 1, 1, 1);
	catalog_epoch(catalog, "main", 7);
	cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
	AUTO_FREE uint8_t *data = scratch_read(path, CATALOG_FILE, &len);
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	memset(data, 0x5a, len);
	cr_assert_eq(pwrite(fd, data, len, 0), (ssize_t)len);
	close(fd);
	catalog_recovery(catalog, "main", "n0", 1, "{}");
	catalog_recovery(catalog, "main", "n0", 2, "{}");
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), 2);
	catalog_recovery(catalog, "main", "n0", 3, "{}");
	cr_assert_eq(ask("SELECT last FROM epoch WHERE job='main'"), 7);
}

/* Killed after it has begun to write: what was there before is there again. */
Test(catalog, what_a_killed_writer_left_is_undone)
{
	int status;
	size_t len;
	for (uint64_t at = 1; at <= 20; at++)
		catalog_recovery(catalog, "main", "n0", at, "{}");
	catalog_close(catalog);
	catalog = NULL;
	pid_t pid = fork();
	if (!pid) {
		sqlite3 *db;
		sqlite3_open(file, &db);
		sqlite3_exec(db,
			     "PRAGMA cache_size=1; PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=OFF; BEGIN;"
			     "UPDATE recovery SET job='other'; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
			     "FROM n"
			     " LIMIT 9999) INSERT INTO event(text) SELECT i FROM n",
			     NULL, NULL, NULL);
		raise(SIGKILL);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status));
	AUTO_FREE uint8_t *journal = scratch_read(path, CATALOG_FILE "-journal", &len);
	cr_assert_gt(len, 0u);
	cr_assert_eq(catalog_open(path, &catalog, &err), 0, "%s", err.text);
	cr_assert_eq(ask("SELECT count(*) FROM recovery WHERE job='main'"), 20);
	cr_assert_eq(ask("SELECT count(*) FROM event"), 0);
}

Test(catalog, a_place_where_none_can_be_is_an_error)
{
	struct catalog *none = NULL;
	cr_assert_lt(catalog_open("/nonexistent", &none, &err), 0);
	cr_assert(strstr(err.text, "/nonexistent"), "%s", err.text);
	cr_assert_null(none);
}

Test(catalog, a_query_that_fails_costs_its_own_use)
{
	catalog_epoch(catalog, "main", 4);
	cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
	cr_assert_eq(failpoint_arm("catalog.query=error:EIO", &err), 0, "%s", err.text);
	catalog_epoch(catalog, "main", 9);
	cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
	failpoint_arm("", &err);
	cr_assert_eq(catalog_last_epoch(catalog, "main"), 9u);
	reopen();
	cr_assert_eq(catalog_last_epoch(catalog, "main"), 4u);
}

/* Every statement takes a second. */
Test(catalog, a_slow_disk_delays_neither_the_caller_nor_the_order)
{
	cr_assert_eq(failpoint_arm("catalog.query=delay:1000", &err), 0, "%s", err.text);
	uint64_t begun = clock_now();
	catalog_committed(catalog, "main", id, 1, 1, 1);
	catalog_verified(catalog, "main", id, -EBADMSG);
	catalog_verified(catalog, "main", id, 0);
	catalog_epoch(catalog, "main", 7);
	cr_assert_eq(catalog_last_epoch(catalog, "main"), 7u);
	cr_assert_lt(clock_now() - begun, CLOCK_NS_PER_S, "not even one was waited for");
	cr_assert_eq(catalog_flush(catalog, 0), -ETIMEDOUT);
	cr_assert_eq(ask("SELECT health FROM checkpoint"), 1);
	failpoint_arm("", &err);
	reopen();
	cr_assert_eq(catalog_last_epoch(catalog, "main"), 7u);
}

Test(catalog, what_does_not_fit_the_queue_is_dropped)
{
	cr_assert_eq(failpoint_arm("catalog.query=delay:5000@1", &err), 0, "%s", err.text);
	for (uint32_t i = 1; i <= CATALOG_QUEUE_MAX + 100; i++)
		catalog_epoch(catalog, "main", i);
	cr_assert_eq(catalog_last_epoch(catalog, "main"), CATALOG_QUEUE_MAX + 100u);
	cr_assert_eq(ask("SELECT last FROM epoch"), CATALOG_QUEUE_MAX);
	catalog_epoch(catalog, "main", CATALOG_QUEUE_MAX + 101);
	cr_assert_eq(ask("SELECT last FROM epoch"), CATALOG_QUEUE_MAX + 101);
	failpoint_arm("", &err);
}

Test(catalog, recoveries_are_kept_and_only_the_last_of_them)
{
	for (uint64_t i = 0; i < RECOVERED_MAX + 5; i++) {
		catalog_recovery(catalog, "main", "n0", i, "{\"epoch\":2}");
		if (i % 500 == 0)
			cr_assert_eq(catalog_flush(catalog, clock_deadline(60 * CLOCK_NS_PER_S)), 0);
	}
	cr_assert_eq(ask("SELECT count(*) FROM recovery"), RECOVERED_MAX);
	cr_assert_eq(ask("SELECT min(at_ns) FROM recovery"), 5);
	reopen();
	cr_assert_eq(ask("SELECT count(*) FROM recovery WHERE node='n0' AND json='{\"epoch\":2}'"), RECOVERED_MAX);
	catalog_recovery(NULL, "main", "n0", 1, "{}");
}
