#include "scratch.h"
#include "store/manage/litter.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[SCRATCH_MAX];
static struct repo repo;
static struct err err;

static void setup(void)
{
	scratch_new(root);
	cr_assert_eq(repo_create(root, &err), 0, "%s", err.text);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(litter, .init = setup, .fini = teardown);

static void directory(const char *name)
{
	char path[1024];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	cr_assert_eq(mkdir(path, 0755), 0, "%s", path);
}

static void file(const char *name)
{
	scratch_write(root, name, "x", 1);
}

/* One of each, and what must not be taken for it. */
static void strew(void)
{
	directory("main");
	directory("main/step-000000000001.e0001");
	directory("main/.trash-step-000000000002.e0001.10");
	directory("main/.abandoned-step-000000000003.e0001.20");
	directory("main/.abandoned-mine");
	directory("main/.other");
	directory("main/.writing-step-000000000004.e0001-1f");
	directory("main/step-000000000005.e0001"); /* of an older release */
	directory("empty");
	file("main/step-000000000001.e0001/MANIFEST.json");
	file("main/step-000000000001.e0001/.MANIFEST.json.tmp");
	file("main/step-000000000001.e0001/.tmp-HEALTH.json.0");
	file("main/step-000000000001.e0001/.hidden");
	file("main/.trash-file");
	file("main/.writing-step-000000000004.e0001-1f/MANIFEST.json");
	file("main/step-000000000005.e0001/data");
	file("main/.tmp-tag-a.json.0");
	file("main/tag-a.json");
	file(".tmp-ckpt-repository.0");
	file(".lock");
}

static const struct litter *find(const struct litter *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

Test(litter, is_found_where_crashes_leave_it)
{
	AUTO_FREE struct litter *list = NULL;
	size_t n;
	strew();
	cr_assert_eq(litter_find(&repo, NULL, &list, &n, &err), 0, "%s", err.text);
	cr_assert_eq(n, 9);
	const struct litter *l = find(list, n, ".trash-step-000000000002.e0001.10");
	cr_assert(l && l->kind == LITTER_TRASH && l->since_ns == 0x10 && !strcmp(l->job, "main") && !*l->dir);
	l = find(list, n, ".abandoned-step-000000000003.e0001.20");
	cr_assert(l && l->kind == LITTER_ABANDONED && l->since_ns == 0x20);
	l = find(list, n, ".abandoned-mine");
	cr_assert(l && l->kind == LITTER_ABANDONED && l->since_ns > 1000000000,
		  "its own time, where the name says none");
	l = find(list, n, ".writing-step-000000000004.e0001-1f");
	cr_assert(l && l->kind == LITTER_UNFINISHED && !*l->dir, "whatever is in it");
	l = find(list, n, "step-000000000005.e0001");
	cr_assert(l && l->kind == LITTER_UNFINISHED && !*l->dir);
	cr_assert(!find(list, n, "step-000000000001.e0001"), "a checkpoint");
	l = find(list, n, ".tmp-HEALTH.json.0");
	cr_assert(l && l->kind == LITTER_TEMPORARY && !strcmp(l->dir, "step-000000000001.e0001"));
	cr_assert(find(list, n, ".MANIFEST.json.tmp"));
	l = find(list, n, ".tmp-tag-a.json.0");
	cr_assert(l && l->kind == LITTER_TEMPORARY && !strcmp(l->job, "main") && !*l->dir);
	l = find(list, n, ".tmp-ckpt-repository.0");
	cr_assert(l && l->kind == LITTER_TEMPORARY && !*l->job);
}

Test(litter, of_one_job_only)
{
	AUTO_FREE struct litter *list = NULL;
	size_t n;
	strew();
	cr_assert_eq(litter_find(&repo, "main", &list, &n, &err), 0, "%s", err.text);
	cr_assert_eq(n, 8);
	free(steal_ptr(&list));
	cr_assert_eq(litter_find(&repo, "empty", &list, &n, &err), 0);
	cr_assert_eq(n, 0);
	cr_assert_eq(litter_find(&repo, "none", &list, &n, &err), 0, "a job that is not there has none");
	cr_assert_eq(n, 0);
}

Test(litter, is_due_by_age_but_trash_at_once)
{
	struct litter l = {.kind = LITTER_ABANDONED, .since_ns = 1000};
	cr_expect(!litter_due(&l, 1099, 100));
	cr_expect(litter_due(&l, 1100, 100));
	cr_expect(!litter_due(&l, 500, 100), "a clock that was set back");
	cr_expect(litter_due(&l, 1000, 0));
	cr_expect(!litter_due(&l, 999, 0));
	l.kind = LITTER_TEMPORARY;
	cr_expect(!litter_due(&l, 1000 + LITTER_TEMPORARY_NS - 1, 0), "somebody may be writing it");
	cr_expect(litter_due(&l, 1000 + LITTER_TEMPORARY_NS, 0));
	l.kind = LITTER_UNFINISHED;
	cr_expect(!litter_due(&l, 1000 + LITTER_TEMPORARY_NS - 1, 0), "somebody may be writing it");
	cr_expect(litter_due(&l, 1000 + LITTER_TEMPORARY_NS, 0));
	l.kind = LITTER_TRASH;
	cr_expect(litter_due(&l, 500, 100));
}

Test(litter, a_clock_that_is_ahead_makes_nothing_old)
{
	AUTO_FREE struct litter *list = NULL;
	size_t n, left;
	strew();
	cr_assert_eq(litter_find(&repo, NULL, &list, &n, &err), 0, "%s", err.text);
	clock_wall_jump(48ull * 3600 * CLOCK_NS_PER_S);
	uint64_t wall = clock_wall(), now = litter_now(&repo);
	clock_wall_jump(0);
	cr_expect_lt(now, wall - 47ull * 3600 * CLOCK_NS_PER_S);
	for (size_t i = 0; i < n; i++)
		if (list[i].kind == LITTER_TEMPORARY || list[i].kind == LITTER_UNFINISHED)
			cr_expect(!litter_due(&list[i], now, 0), "%s", list[i].name);
	free(steal_ptr(&list));
	cr_assert_eq(litter_find(&repo, NULL, &list, &left, &err), 0, "%s", err.text);
	cr_expect_eq(left, n, "it leaves nothing behind");
}

static void written_at(const char *name, time_t s)
{
	char path[1024];
	const struct timespec times[2] = {{.tv_sec = s}, {.tv_sec = s}};
	snprintf(path, sizeof(path), "%s/%s", root, name);
	cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

Test(litter, what_is_not_finished_is_as_old_as_what_was_written_last_in_it)
{
	AUTO_FREE struct litter *list = NULL;
	size_t n;
	strew();
	written_at("main/step-000000000005.e0001/data", 2000);
	written_at("main/step-000000000005.e0001", 1000);
	written_at("main/.writing-step-000000000004.e0001-1f/MANIFEST.json", 1000);
	written_at("main/.writing-step-000000000004.e0001-1f", 3000);
	cr_assert_eq(litter_find(&repo, "main", &list, &n, &err), 0, "%s", err.text);
	const struct litter *l = find(list, n, "step-000000000005.e0001");
	cr_expect(l && l->since_ns == 2000000000000);
	l = find(list, n, ".writing-step-000000000004.e0001-1f");
	cr_expect(l && l->since_ns == 3000000000000);
}

Test(litter, temporaries_are_removed)
{
	AUTO_FREE struct litter *list = NULL;
	size_t n, left;
	strew();
	cr_assert_eq(litter_find(&repo, NULL, &list, &n, &err), 0);
	for (size_t i = 0; i < n; i++)
		for (int twice = 0; twice < 2 && list[i].kind == LITTER_TEMPORARY; twice++)
			cr_assert_eq(litter_unlink(&repo, &list[i], &err), 0, "%s", err.text);
	free(steal_ptr(&list));
	cr_assert_eq(litter_find(&repo, NULL, &list, &left, &err), 0);
	cr_assert_eq(left, n - 4);
	char path[1024];
	snprintf(path, sizeof(path), "%s/main/step-000000000001.e0001/MANIFEST.json", root);
	cr_assert_eq(access(path, F_OK), 0);
}
