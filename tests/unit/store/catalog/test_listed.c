#include "store/catalog/listed.h"

#include "scratch.h"
#include "store_maker.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char root[SCRATCH_MAX], file[SCRATCH_MAX + 32];
static sqlite3 *db;
static struct listings found;
static struct err err;
static atomic_bool stop;

static void make(const char *job, uint64_t step)
{
	struct store_spec spec = {.root = root, .job = job, .id = {step, 1}, .rows = 4, .cols = 4};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
}

static void setup(void)
{
	scratch_new(root);
	snprintf(file, sizeof(file), "%s/" CATALOG_FILE, root);
	make("a", 10);
	make("a", 20);
	make("b", 10);
	cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
	cr_assert_eq(listed_prepare(db), 0);
}

static void teardown(void)
{
	listings_free(&found);
	sqlite3_close(db);
	scratch_remove(root);
}

TestSuite(listed, .init = setup, .fini = teardown);

static void fill(void)
{
	cr_assert_eq(listed_fill(db, root, &stop, &err), 0, "%s", err.text);
}

static size_t count(const char *job)
{
	listings_free(&found);
	listed_read(root, job, &found);
	return found.n;
}

static void sql(const char *text)
{
	cr_assert_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
}

Test(listed, what_was_noted_is_read_in_the_order_of_a_scan)
{
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	struct listing looked;
	size_t n;
	fill();
	cr_assert_eq(count(NULL), 3);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(repo_scan(&repo, NULL, &refs, &n, &err), 0, "%s", err.text);
	for (size_t i = 0; i < n; i++) {
		cr_assert(listing_read(&repo, &refs[i], &looked, &err));
		looked.stamp.noted_ns = found.list[i].stamp.noted_ns;
		cr_expect_str_eq(found.list[i].job, looked.job);
		cr_expect_eq(step_compare(found.list[i].id, looked.id), 0);
		cr_expect_eq(found.list[i].bytes, looked.bytes);
		cr_expect_eq(found.list[i].files, looked.files);
		cr_expect_eq(found.list[i].ranks, looked.ranks);
		cr_expect_eq(found.list[i].committed_ns, looked.committed_ns);
		cr_expect_arr_eq(&found.list[i].stamp, &looked.stamp, sizeof(looked.stamp));
	}
	repo_close(&repo);
	cr_expect_eq(count("a"), 2);
	cr_expect_eq(count("c"), 0);
}

Test(listed, what_is_gone_is_forgotten_and_what_is_new_noted)
{
	struct store_spec gone = {.root = root, .job = "a", .id = {20, 1}};
	char dir[SCRATCH_MAX + 64];
	fill();
	store_dir(&gone, dir, sizeof(dir));
	scratch_remove(dir);
	make("a", 30);
	make("c", 1);
	fill();
	cr_assert_eq(count("a"), 2);
	cr_expect_eq(found.list[0].id.step, 10);
	cr_expect_eq(found.list[1].id.step, 30);
	cr_expect_eq(count(NULL), 4);
}

Test(listed, damage_is_never_noted)
{
	struct store_spec bad = {.root = root, .job = "a", .id = {20, 1}};
	fill();
	cr_assert_eq(store_mark_health(&bad, true, "a leaf differs", &err), 0, "%s", err.text);
	fill();
	cr_assert_eq(count("a"), 1);
	cr_expect_eq(found.list[0].id.step, 10);
}

Test(listed, a_row_that_is_not_what_was_written_is_passed_over)
{
	fill();
	sql("UPDATE listing SET step=11 WHERE job='a' AND step=10");
	cr_expect_eq(count("a"), 1, "under another key");
	sql("UPDATE listing SET row=zeroblob(length(row)) WHERE job='a' AND step=20");
	cr_expect_eq(count("a"), 0, "other numbers");
	sql("UPDATE listing SET row=substr(row, 2) WHERE job='b'");
	cr_expect_eq(count(NULL), 0, "too short");
	sql("INSERT INTO listing VALUES('../a', -1, -1, 'x')");
	cr_expect_eq(count(NULL), 0);
	fill();
	cr_expect_eq(count(NULL), 3);
}

Test(listed, a_catalog_that_is_none_has_nothing)
{
	fill();
	sqlite3_close(db);
	db = NULL;
	scratch_write(root, CATALOG_FILE, "this is not a database, and long enough to be looked at", 56);
	cr_expect_eq(count(NULL), 0);
	cr_assert_eq(unlink(file), 0);
	cr_expect_eq(count(NULL), 0);
	cr_expect_neq(access(file, F_OK), 0, "reading makes none");
	listings_free(&found);
	listed_read("/nonexistent", NULL, &found);
	cr_expect_eq(found.n, 0);
}

Test(listed, a_catalog_behind_a_link_is_not_read)
{
	char elsewhere[SCRATCH_MAX + 64];
	fill();
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", root);
	cr_assert_eq(rename(file, elsewhere), 0);
	cr_assert_eq(symlink(elsewhere, file), 0);
	cr_expect_eq(count(NULL), 0);
}

/* A view in the place of the table, whose rows never end. */
Test(listed, a_table_without_an_end_is_left_in_time)
{
	sql("DROP TABLE listing");
	sql("CREATE VIEW listing AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)"
	    " SELECT 'a' AS job, i AS epoch, i AS step, 'x' AS row FROM n");
	cr_expect_eq(count("a"), 0);
}

Test(listed, filling_ends_when_it_is_told_to)
{
	atomic_store(&stop, true);
	fill();
	cr_expect_eq(count(NULL), 0);
	atomic_store(&stop, false);
	fill();
	cr_expect_eq(count(NULL), 3);
}
