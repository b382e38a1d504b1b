#include "ckptd/job_of.h"
#include "upkeep/gc.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "catalog/catalog.h"
#include "daemon.h"
#include "job/job.h"
#include "job/restoring.h"
#include "job/saving.h"
#include "scratch.h"
#include "store/manage/litter.h"
#include "store/manage/tags.h"
#include "store_maker.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[SCRATCH_MAX];
static struct daemon d;
static struct job job;
static struct err err;

static struct store_spec spec_of(uint64_t step)
{
	return (struct store_spec){.root = root, .job = "gpt", .id = {step, 1}, .rows = 8, .cols = 4};
}

static void make(uint64_t step, bool verified)
{
	struct store_spec spec = spec_of(step);
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	if (verified)
		cr_assert_eq(store_mark_health(&spec, false, "", &err), 0, "%s", err.text);
}

/* A daemon as far as upkeep/gc.h looks at it, with one job without ranks. */
static void setup(void)
{
	scratch_new(root);
	make(1, false);
	daemon_init(&d);
	d.runtime.config = (struct config){.store = root, .collect_after_ms = 3600000};
	d.storage.root = 0;
	list_init(&d.jobs.list);
	list_init(&d.control.hosts);
	outbox_init(&d.control.outbox);
	cr_assert_eq(disk_new(root, &d.storage.disk, &d.storage.root, &err), 0, "%s", err.text);
	cr_assert_eq(gc_new(&d.jobs, &d.storage.gc, &err), 0, "%s", err.text);
	job = (struct job){JOB_OF(d), .name = "gpt"};
	copying_init(&job);
	job_init_saves(&job);
	job_init_restore(&job);
	list_push(&d.jobs.list, &job.link);
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	gc_free(d.storage.gc);
	disk_free(d.storage.disk);
	scratch_remove(root);
}

TestSuite(gc, .init = setup, .fini = teardown);

/* The first tick begins with a look at the whole store. */
static void turn(void)
{
	struct pollfd fds[2] = {{.fd = gc_event_fd(d.storage.gc), .events = POLLIN},
				{.fd = disk_event_fd(d.storage.disk), .events = POLLIN}};
	poll(fds, 2, 5);
	gc_poll(d.storage.gc);
	disk_poll(d.storage.disk, 0);
	gc_tick(d.storage.gc);
}

static void settle(void)
{
	gc_tick(d.storage.gc);
	for (int quiet = 0; quiet < 3; quiet = gc_idle(d.storage.gc) ? quiet + 1 : 0)
		turn();
}

static void collect(void)
{
	gc_want(d.storage.gc, job.name, &job.policy);
	settle();
}

/* Steps in the store, as text; and whether anything hidden is left. */
static const char *left(void)
{
	static char text[256];
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n, len = 0;
	text[0] = 0;
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(repo_scan(&repo, "gpt", &refs, &n, &err), 0, "%s", err.text);
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%lu", len ? " " : "",
					(unsigned long)refs[i].id.step);
	repo_close(&repo);
	return text;
}

static size_t litter(void)
{
	struct repo repo;
	AUTO_FREE struct litter *list = NULL;
	size_t n;
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(litter_find(&repo, NULL, &list, &n, &err), 0, "%s", err.text);
	repo_close(&repo);
	return n;
}

static void arm(const char *spec)
{
	cr_assert_eq(failpoint_arm(spec, &err), 0, "%s", err.text);
}

Test(gc, without_a_rule_nothing_goes)
{
	make(2, true);
	collect();
	cr_assert_str_eq(left(), "1 2");
}

Test(gc, what_no_rule_keeps_goes_with_its_files)
{
	make(2, true);
	make(3, false);
	make(4, false);
	job.policy.keep_last = 1;
	collect();
	cr_assert_str_eq(left(), "2 4", "the newest, and the newest that was verified");
	cr_assert_eq(litter(), 0);
}

Test(gc, what_is_moved_is_deleted_although_the_answer_was_lost)
{
	make(2, true);
	job.policy.keep_last = 1;
	arm("disk.rename.after=error:ENOENT");
	collect();
	arm("");
	cr_assert_str_eq(left(), "2");
	cr_assert_eq(litter(), 0);
}

Test(gc, a_job_that_has_ended_meanwhile_has_its_round)
{
	make(2, false);
	job.policy.keep_last = 1;
	gc_want(d.storage.gc, job.name, &job.policy);
	list_remove(&job.link);
	settle();
	cr_assert_str_eq(left(), "2");
}

Test(gc, pins_and_tags_hold)
{
	struct store_spec pinned = spec_of(1);
	struct tag tag = {.job = "gpt", .id = {2, 1}, .tagged_at = 1, .name = "best"};
	struct repo repo;
	make(2, false);
	make(3, false);
	make(4, false);
	cr_assert_eq(store_mark_pin(&pinned, "", &err), 0);
	cr_assert_eq(repo_open(root, &repo, &err), 0);
	cr_assert_eq(tag_put(&repo, &tag, false, &err), 0);
	repo_close(&repo);
	job.policy.keep_last = 1;
	collect();
	cr_assert_str_eq(left(), "1 2 4");
}

Test(gc, what_the_ranks_went_on_from_stays)
{
	make(2, false);
	make(3, false);
	job.policy.keep_last = 1;
	job.restore.count = 1;
	job.restore.last = (struct step_id){1, 1};
	collect();
	cr_assert_str_eq(left(), "1 3");
}

Test(gc, while_ranks_are_restored_nothing_goes)
{
	make(2, false);
	job.policy.keep_last = 1;
	job.restore.state = RESTORE_LOOK;
	collect();
	cr_assert_str_eq(left(), "1 2");
	job.restore.state = RESTORE_IDLE;
	settle();
	cr_assert_str_eq(left(), "2", "it was put off");
}

/* A restore begins when the plan is made and nothing has moved yet. */
Test(gc, what_comes_into_use_after_the_plan_stays)
{
	make(2, false);
	job.policy.keep_last = 1;
	settle(); /* the whole store */
	gc_want(d.storage.gc, job.name, &job.policy);
	struct pollfd fd = {.fd = gc_event_fd(d.storage.gc), .events = POLLIN};
	gc_tick(d.storage.gc);
	cr_assert_eq(poll(&fd, 1, 10000), 1, "the plan is made");
	job.restore.state = RESTORE_LOOK;
	while (!gc_idle(d.storage.gc))
		turn();
	cr_assert_str_eq(left(), "1 2");
}

Test(gc, another_ones_lock_puts_it_off)
{
	struct repo repo;
	make(2, false);
	job.policy.keep_last = 1;
	cr_assert_eq(repo_open(root, &repo, &err), 0);
	int lock = trash_lock(&repo, 0, &err);
	collect();
	cr_assert_str_eq(left(), "1 2");
	disk_close_file(repo.disk, lock);
	repo_close(&repo);
	uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
	while (strcmp(left(), "2") != 0 && clock_now() < deadline)
		turn();
	settle();
	cr_assert_str_eq(left(), "2");
}

Test(gc, the_lock_is_free_after_a_round)
{
	struct repo repo;
	make(2, false);
	job.policy.keep_last = 1;
	collect();
	cr_assert_eq(repo_open(root, &repo, &err), 0);
	int lock = trash_lock(&repo, 0, &err);
	cr_assert_geq(lock, 0, "%s", err.text);
	disk_close_file(repo.disk, lock);
	repo_close(&repo);
}

Test(gc, without_the_fsync_nothing_is_deleted)
{
	make(2, false);
	job.policy.keep_last = 1;
	arm("gc.sync=error:EIO");
	collect();
	cr_assert_str_eq(left(), "2");
	cr_assert_eq(litter(), 1, "it lies in the trash");
}

Test(gc, litter_of_all_jobs_goes_when_it_is_due)
{
	char name[512];
	snprintf(name, sizeof(name), "%s/gpt/.trash-step-000000000009.e0001.1", root);
	mkdir(name, 0755);
	scratch_write(name, "a", "x", 1);
	snprintf(name, sizeof(name), "%s/other", root);
	mkdir(name, 0755);
	snprintf(name, sizeof(name), "%s/other/.abandoned-step-000000000008.e0001.1", root);
	mkdir(name, 0755);
	scratch_write(name, "a", "x", 1);
	snprintf(name, sizeof(name), "%s/other/.abandoned-step-000000000007.e0001.%lx", root,
		 (unsigned long)clock_wall());
	mkdir(name, 0755);
	cr_assert_eq(litter(), 3);
	settle();
	cr_assert_eq(litter(), 1, "the one that is young");
	cr_assert_eq(access(name, F_OK), 0);
	cr_assert_str_eq(left(), "1");
}

Test(gc, more_than_one_round_holds)
{
	for (uint64_t step = 2; step <= 40; step++)
		make(step, false);
	job.policy.keep_last = 2;
	collect();
	cr_assert_str_eq(left(), "39 40");
	cr_assert_eq(litter(), 0);
}

Test(gc, the_end_of_the_daemon_cuts_it_short)
{
	for (uint64_t step = 2; step <= 10; step++)
		make(step, false);
	job.policy.keep_last = 1;
	gc_want(d.storage.gc, job.name, &job.policy);
	gc_tick(d.storage.gc);
	d.runtime.stopping = true;
	uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
	while (!gc_idle(d.storage.gc) && clock_now() < deadline)
		turn();
	cr_assert(gc_idle(d.storage.gc));
}
