#include "scratch.h"
#include "store/read/repo.h"
#include "store_maker.h"

#include "base/cleanup.h"
#include "base/failpoint.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[SCRATCH_MAX], root[SCRATCH_MAX + 16];
static struct err err;

static void setup(void)
{
	scratch_new(scratch);
	snprintf(root, sizeof(root), "%s/repo", scratch);
}

static void teardown(void)
{
	scratch_remove(scratch);
}

TestSuite(repo, .init = setup, .fini = teardown);

static int try_open(const char *path)
{
	struct repo repo;
	int rc = repo_open(path, &repo, &err);
	repo_close(&repo);
	return rc;
}

/* ---- create, open */

Test(repo, create_makes_one_level_and_is_idempotent)
{
	char path[sizeof(root) + 16];
	cr_expect_eq(repo_create(root, &err), 0, "%s", err.text);
	cr_expect_eq(try_open(root), 0, "%s", err.text);
	cr_expect_eq(repo_create(root, &err), 0, "%s", err.text);
	snprintf(path, sizeof(path), "%s/../other//", root);
	cr_expect_eq(repo_create(path, &err), 0, "slashes at the end: %s", err.text);
	cr_expect_eq(try_open(path), 0, "%s", err.text);
	snprintf(path, sizeof(path), "%s/x/y", scratch);
	cr_expect_eq(repo_create(path, &err), -ENOENT);
	cr_expect(strstr(err.text, "/x/y"), "%s", err.text);
}

static void *create(void *result)
{
	struct err why = {0};
	*(int *)result = repo_create(root, &why);
	return NULL;
}

Test(repo, many_create_the_same_one_at_once)
{
	enum { ROUNDS = 100, MANY = 8 };
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t threads[MANY];
		int results[MANY];
		scratch_remove(scratch);
		setup();
		for (int i = 0; i < MANY; i++)
			cr_assert_eq(pthread_create(&threads[i], NULL, create, &results[i]), 0);
		for (int i = 0; i < MANY; i++) {
			cr_assert_eq(pthread_join(threads[i], NULL), 0);
			cr_expect_eq(results[i], 0, "round %d: %d", round, results[i]);
		}
		cr_expect_eq(try_open(root), 0, "%s", err.text);
	}
}

Test(repo, create_takes_an_empty_directory_only)
{
	cr_assert_eq(mkdir(root, 0755), 0);
	scratch_write(root, "thesis.tex", "x", 1);
	cr_expect_eq(repo_create(root, &err), -ENOTEMPTY);
	cr_expect(strstr(err.text, root), "%s", err.text);
	char path[sizeof(root) + 32];
	snprintf(path, sizeof(path), "%s/thesis.tex", root);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lost+found", root);
	cr_assert_eq(mkdir(path, 0755), 0);
	scratch_write(root, ".tmp-ckpt-repository.0", "half", 4);
	cr_expect_eq(repo_create(root, &err), 0, "%s", err.text);
	cr_expect_eq(try_open(root), 0);
}

Test(repo, a_create_that_failed_can_be_repeated)
{
	static const char *const specs[] = {"disk.mkdir=error:EIO", "disk.fsync=error:EIO", "disk.write=error:ENOSPC",
					    "disk.link=error:EIO"};
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		cr_assert_eq(failpoint_arm(specs[i], NULL), 0);
		cr_expect_lt(repo_create(root, &err), 0, "%s", specs[i]);
		failpoint_arm("", NULL);
		cr_expect_neq(try_open(root), 0, "%s", specs[i]);
	}
	cr_expect_eq(repo_create(root, &err), 0, "%s", err.text);
	cr_expect_eq(try_open(root), 0);
}

Test(repo, what_is_no_repository_is_told_apart)
{
	cr_expect_eq(try_open(root), -ENOENT);
	cr_expect(strstr(err.text, root), "%s", err.text);
	cr_assert_eq(mkdir(root, 0755), 0);
	cr_expect_eq(try_open(root), -ENOENT);
	cr_expect(strstr(err.text, REPO_MARK), "%s", err.text);
	scratch_write(root, REPO_MARK, "ckpt-repository 2\n", 18);
	cr_expect_eq(try_open(root), -EPROTONOSUPPORT);
	scratch_write(root, REPO_MARK, "", 0);
	cr_expect_eq(try_open(root), -EBADMSG);
	cr_expect(strstr(err.text, "is damaged"), "%s", err.text);
	scratch_write(scratch, "file", "", 0);
	char path[SCRATCH_MAX + 16];
	snprintf(path, sizeof(path), "%s/file", scratch);
	cr_expect_eq(try_open(path), -ENOTDIR);
}

/* ---- scan */

static void make(const char *job, uint64_t step, uint32_t epoch, bool partial)
{
	struct store_spec spec = {
		.root = root, .job = job, .id = {step, epoch}, .rows = 4, .cols = 4, .partial = partial};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
}

static void expect_ref(const struct checkpoint_ref *ref, const char *job, uint64_t step, uint32_t epoch,
		       enum checkpoint_state state)
{
	cr_expect_str_eq(ref->job, job);
	cr_expect_eq(ref->id.step, step);
	cr_expect_eq(ref->id.epoch, epoch);
	cr_expect_eq(ref->state, state);
	cr_expect_eq(ref->committed_ns != 0, state == CHECKPOINT_COMMITTED);
}

Test(repo, scan_orders_by_job_epoch_and_step)
{
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL, *one = NULL;
	size_t n;
	make("b", 5, 1, false);
	make("a", 900, 1, false);
	make("a", 20, 2, false);
	make("a", 100, 1, false);
	make("a", 950, 1, true);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(repo_scan(&repo, NULL, &refs, &n, &err), 0, "%s", err.text);
	cr_assert_eq(n, 5);
	expect_ref(&refs[0], "a", 100, 1, CHECKPOINT_COMMITTED);
	expect_ref(&refs[1], "a", 900, 1, CHECKPOINT_COMMITTED);
	expect_ref(&refs[2], "a", 950, 1, CHECKPOINT_PARTIAL);
	expect_ref(&refs[3], "a", 20, 2, CHECKPOINT_COMMITTED);
	expect_ref(&refs[4], "b", 5, 1, CHECKPOINT_COMMITTED);
	cr_assert_eq(repo_scan(&repo, "b", &one, &n, &err), 0);
	cr_assert_eq(n, 1);
	expect_ref(&one[0], "b", 5, 1, CHECKPOINT_COMMITTED);
	repo_close(&repo);
}

static void make_dir(const char *name)
{
	char path[1024];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	cr_assert_eq(mkdir(path, 0755), 0, "%s", path);
}

static void make_link(const char *target, const char *name)
{
	char path[1024];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	cr_assert_eq(symlink(target, path), 0, "%s", path);
}

Test(repo, scan_passes_over_what_is_none_of_ours)
{
	struct repo repo;
	struct checkpoint_ref *refs;
	size_t n;
	make("a", 1, 1, false);
	make_dir(".abandoned-a");
	make_dir("a/.abandoned-step-000000000002.e0001");
	make_dir("a/step-2.e1");
	make_dir("a/step-000000000002.e0001x");
	make_dir("a/notes");
	make_dir("bad name");
	make_dir("-x");
	make_link("a", "alias");
	make_link("step-000000000001.e0001", "a/step-000000000009.e0001");
	scratch_write(root, "a/step-000000000003.e0001", "file", 4);
	scratch_write(root, "file", "x", 1);
	cr_assert_eq(repo_open(root, &repo, &err), 0);
	cr_assert_eq(repo_scan(&repo, NULL, &refs, &n, &err), 0, "%s", err.text);
	cr_expect_eq(n, 1);
	free(refs);
	cr_expect_eq(repo_scan(&repo, "nosuch", &refs, &n, &err), 0, "a job that is not there has none");
	cr_expect_eq(n, 0);
	cr_expect_null(refs);
	cr_expect_eq(repo_scan(&repo, "../a", &refs, &n, &err), 0);
	cr_expect_eq(n, 0);
	repo_close(&repo);
}

Test(repo, a_scan_that_cannot_read_says_where)
{
	struct repo repo;
	struct checkpoint_ref *refs;
	size_t n;
	make("a", 1, 1, false);
	cr_assert_eq(repo_open(root, &repo, &err), 0);
	cr_assert_eq(failpoint_arm("disk.open=error:EACCES@2", NULL), 0);
	cr_expect_eq(repo_scan(&repo, "a", &refs, &n, &err), -EACCES);
	failpoint_arm("", NULL);
	cr_expect(strstr(err.text, "/a/step-000000000001.e0001"), "%s", err.text);
	cr_expect_null(refs);
	repo_close(&repo);
}
