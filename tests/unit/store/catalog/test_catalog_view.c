#include "store/catalog/catalog_view.h"

#include "scratch.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[SCRATCH_MAX], file[SCRATCH_MAX + 96];
static struct catalog_view view;

static void setup(void)
{
	sqlite3 *db;
	scratch_new(root);
	snprintf(file, sizeof(file), "%s/" CATALOG_FILE, root);
	cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
	cr_assert_eq(sqlite3_exec(db, "CREATE TABLE t(i INTEGER); INSERT INTO t VALUES(7)", NULL, NULL, NULL),
		     SQLITE_OK);
	sqlite3_close(db);
}

static void teardown(void)
{
	catalog_view_close(&view);
	scratch_remove(root);
}

TestSuite(catalog_view, .init = setup, .fini = teardown);

static int run(const char *sql)
{
	return sqlite3_exec(view.db, sql, NULL, NULL, NULL);
}

Test(catalog_view, is_for_reading)
{
	catalog_view_open(&view, root);
	cr_assert(view.db);
	cr_expect_eq(run("SELECT i FROM t"), SQLITE_OK);
	cr_expect_eq(run("INSERT INTO t VALUES(8)"), SQLITE_READONLY);
}

Test(catalog_view, a_link_in_its_place_is_not_followed)
{
	char there[SCRATCH_MAX + 48];
	snprintf(there, sizeof(there), "%s/there", root);
	cr_assert_eq(rename(file, there), 0);
	cr_assert_eq(symlink("there", file), 0);
	catalog_view_open(&view, root);
	cr_expect(!view.db || run("SELECT i FROM t") != SQLITE_OK);
}

Test(catalog_view, what_takes_too_long_is_given_up)
{
	catalog_view_open(&view, root);
	view.deadline = clock_now() + 10 * CLOCK_NS_PER_MS;
	cr_expect_eq(run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"),
		     SQLITE_INTERRUPT);
}

Test(catalog_view, without_a_file_there_is_no_view)
{
	cr_assert_eq(unlink(file), 0);
	catalog_view_open(&view, root);
	cr_expect_null(view.db);
	catalog_view_close(&view);
	catalog_view_open(&view, "/nonexistent");
	cr_expect_null(view.db);
}

/* In a transaction that has reached the file: more pages than its cache holds. */
static void die_writing(void)
{
	sqlite3 *db;
	sqlite3_open(file, &db);
	sqlite3_exec(
		db,
		"PRAGMA cache_size=5; BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9999)"
		" INSERT INTO t SELECT i FROM n",
		NULL, NULL, NULL);
	raise(SIGKILL);
}

Test(catalog_view, what_a_killed_writer_left_is_read_as_it_is)
{
	char journal[SCRATCH_MAX + 112];
	int status;
	pid_t pid = fork();
	if (!pid)
		die_writing();
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status));
	snprintf(journal, sizeof(journal), "%s-journal", file);
	cr_assert_eq(access(journal, F_OK), 0);
	catalog_view_open(&view, root);
	cr_assert(view.db);
	cr_expect_eq(run("SELECT i FROM t LIMIT 1"), SQLITE_OK);
	cr_expect_eq(access(journal, F_OK), 0, "it is the next writer's");
}

Test(catalog_view, a_path_may_bear_any_name)
{
	char odd[SCRATCH_MAX + 48];
	int status;
	snprintf(odd, sizeof(odd), "%s/50%%?a#b c", root);
	cr_assert_eq(mkdir(odd, 0700), 0);
	char there[SCRATCH_MAX + 96];
	snprintf(there, sizeof(there), "%s/" CATALOG_FILE, odd);
	cr_assert_eq(rename(file, there), 0);
	snprintf(file, sizeof(file), "%s", there);
	pid_t pid = fork();
	if (!pid)
		die_writing();
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	catalog_view_open(&view, odd);
	cr_assert(view.db);
	cr_expect_eq(run("SELECT i FROM t LIMIT 1"), SQLITE_OK);
}
