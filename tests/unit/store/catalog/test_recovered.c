#include "store/catalog/recovered.h"

#include "store/catalog/catalog_view.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>

static char root[SCRATCH_MAX], file[SCRATCH_MAX + 32];
static sqlite3 *db;
static struct recovered_list found;

static void setup(void)
{
	scratch_new(root);
	snprintf(file, sizeof(file), "%s/" CATALOG_FILE, root);
	cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
}

static void teardown(void)
{
	recovered_free(&found);
	sqlite3_close(db);
	scratch_remove(root);
}

TestSuite(recovered, .init = setup, .fini = teardown);

static void sql(const char *text)
{
	cr_assert_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
}

static size_t count(const char *job)
{
	recovered_free(&found);
	cr_assert_eq(recovered_read(root, job, &found), 0);
	return found.n;
}

Test(recovered, rows_come_by_time_and_by_job)
{
	cr_assert_eq(recovered_prepare(db), 0);
	cr_assert_eq(recovered_prepare(db), 0, "again");
	cr_assert_eq(count(NULL), 0u);
	sql("INSERT INTO recovery(at_ns, job, node, json) "
	    "VALUES(20,'gpt','n0','{\"step\":2}'),(10,'gpt','n1','{}'),(15,'moe','n0','{}')");
	cr_assert_eq(count(NULL), 3u);
	cr_assert_str_eq(found.list[0].node, "n1");
	cr_assert_eq(found.list[1].at_ns, 15u);
	cr_assert_str_eq(found.list[2].json, "{\"step\":2}");
	cr_assert_eq(count("moe"), 1u);
	cr_assert_eq(count("none"), 0u);
}

Test(recovered, what_was_not_written_here_is_left_out)
{
	cr_assert_eq(recovered_prepare(db), 0);
	sql("INSERT INTO recovery(at_ns, job, node, json) VALUES(1,'../x','n0','{}'),(2,'gpt','','{}'),(3,'gpt','n0',"
	    "printf('%.*c', 70000, 'x')),(4,'gpt','n0','{}')");
	cr_assert_eq(count(NULL), 1u);
	cr_assert_eq(found.list[0].at_ns, 4u);
}

Test(recovered, no_more_are_read_than_are_kept)
{
	cr_assert_eq(recovered_prepare(db), 0);
	sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)"
	    " INSERT INTO recovery(at_ns, job, node, json) SELECT i, 'gpt', 'n0', '{}' FROM n");
	cr_assert_eq(count(NULL), (size_t)RECOVERED_MAX);
}

Test(recovered, without_a_catalog_or_its_table_it_says_so)
{
	cr_assert_eq(recovered_read(root, NULL, &found), -ENOENT, "a catalog of an earlier release");
	sqlite3_close(db);
	db = NULL;
	cr_assert_eq(remove(file), 0);
	cr_assert_eq(recovered_read(root, NULL, &found), -ENOENT);
	scratch_write(root, CATALOG_FILE, "this is not a database, and long enough to be looked at", 56);
	cr_assert_eq(recovered_read(root, NULL, &found), -ENOENT);
	cr_assert_eq(found.n, 0u);
}
