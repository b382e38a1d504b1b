/* Two daemons of a cluster on one store, over the real disk. */
#include "control/record/directory_lock.h"

#include "fakes.h"
#include "scratch.h"
#include "store/disk/disk.h"
#include "store/read/repo.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { DAEMONS = 2 };

static char path[SCRATCH_MAX];
static struct daemon daemons[DAEMONS];
static int directory_lock[DAEMONS];
static struct err err;

static void setup(void)
{
	fakes_reset();
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	for (int i = 0; i < DAEMONS; i++) {
		daemon_init(&daemons[i]);
		daemons[i].runtime.config = (struct config){.store = path, .cluster = "c"};
		daemons[i].storage.root = 0;
		cr_assert_eq(disk_new(path, &daemons[i].storage.disk, &daemons[i].storage.root, &err), 0, "%s",
			     err.text);
		directory_lock[i] = DIRECTORY_LOCK_NONE;
	}
}

static void teardown(void)
{
	for (int i = 0; i < DAEMONS; i++) {
		directory_lock_give(&daemons[i].control, &directory_lock[i]);
		disk_free(daemons[i].storage.disk);
	}
	scratch_remove(path);
}

TestSuite(directory_lock, .init = setup, .fini = teardown);

static int take(int i, const char *job)
{
	return directory_lock_take(&daemons[i].control, job, &directory_lock[i], &err);
}

Test(directory_lock, one_daemon_has_it_until_it_gives_it_back)
{
	cr_assert_eq(take(0, "gpt"), 0, "%s", err.text);
	cr_expect(directory_lock[0] >= 0);
	cr_expect_eq(take(1, "gpt"), -EBUSY);
	cr_expect_eq(directory_lock[1], DIRECTORY_LOCK_NONE);
	cr_expect(strstr(err.text, "job 'gpt' is the business of another daemon"), "%s", err.text);
	cr_expect(strstr(err.text, "/gpt/" DIRECTORY_LOCK_FILE), "%s", err.text);
	directory_lock_give(&daemons[0].control, &directory_lock[0]);
	cr_expect_eq(directory_lock[0], DIRECTORY_LOCK_NONE);
	directory_lock_give(&daemons[0].control, &directory_lock[0]); /* nothing to give */
	cr_expect_eq(take(1, "gpt"), 0, "%s", err.text);
}

Test(directory_lock, another_job_is_another_matter)
{
	cr_expect_eq(take(0, "gpt"), 0, "%s", err.text);
	cr_expect_eq(take(1, "bert"), 0, "%s", err.text);
}

Test(directory_lock, a_daemon_that_is_alone_or_has_no_store_needs_none)
{
	struct stat st;
	char job[2 * SCRATCH_MAX];
	snprintf(job, sizeof(job), "%s/gpt", path);
	daemons[0].runtime.config.cluster = NULL;
	cr_expect(take(0, "gpt") == 0 && directory_lock[0] == DIRECTORY_LOCK_NONE);
	int root = daemons[1].storage.root;
	daemons[1].storage.root = -1;
	cr_expect(take(1, "gpt") == 0 && directory_lock[1] == DIRECTORY_LOCK_NONE);
	daemons[1].storage.root = root;
	cr_expect(stat(job, &st), "nothing was made");
}

Test(directory_lock, what_stands_in_the_way_is_named)
{
	scratch_write(path, "gpt", "", 0);
	cr_expect_eq(take(0, "gpt"), -ENOTDIR, "%s", err.text);
	cr_expect(strstr(err.text, "/gpt: "), "%s", err.text);
	cr_expect_eq(directory_lock[0], DIRECTORY_LOCK_NONE);
}

Test(directory_lock, who_coordinates_a_job_may_remove_what_is_of_it_and_another_one_may_not)
{
	int other;
	cr_assert_eq(take(0, "gpt"), 0, "%s", err.text);
	cr_expect(!directory_lock_to_remove(&daemons[1].control, "gpt", &other));
	cr_expect_eq(other, DIRECTORY_LOCK_NONE);
	fake_host.has = true;
	cr_expect(directory_lock_to_remove(&daemons[0].control, "gpt", &other) && other == DIRECTORY_LOCK_NONE,
		  "it has it already");
}

Test(directory_lock, litter_of_a_job_that_nobody_coordinates_may_be_removed_by_one_at_a_time)
{
	int other;
	cr_expect(directory_lock_to_remove(&daemons[0].control, "gpt", &directory_lock[0]) && directory_lock[0] >= 0);
	cr_expect(!directory_lock_to_remove(&daemons[1].control, "gpt", &other));
	directory_lock_give(&daemons[0].control, &directory_lock[0]);
	cr_expect(directory_lock_to_remove(&daemons[1].control, "gpt", &directory_lock[1]) && directory_lock[1] >= 0);
	cr_expect(directory_lock_to_remove(&daemons[0].control, "", &other) && other == DIRECTORY_LOCK_NONE,
		  "of the store, not of a job");
}

/* A plan that was made in one term is carried out step by step. */
Test(directory_lock, what_may_be_removed_stays_when_another_daemon_may_coordinate_the_job)
{
	static char registry; /* nobody looks into it */
	struct control *control = &daemons[0].control;
	cr_expect(directory_lock_stands(control, "gpt"), "nobody is elected");
	control->registry = (struct registry *)&registry;
	control->peers->self = 1;
	fake_registry.synced = true;
	fake_host.has = true;
	cr_expect(directory_lock_stands(control, "gpt"), "all its ranks are here");
	fake_host.term = 7;
	cr_expect(directory_lock_stands(control, "gpt"), "it is elected");
	fake_host.elsewhere = true;
	cr_expect(!directory_lock_stands(control, "gpt"), "its lease may have ended");
	cr_expect(directory_lock_stands(control, ""), "of the store, not of a job");
	fake_host.has = false;
	cr_expect(directory_lock_stands(control, "gpt"), "nobody coordinates it");
	fake_registry.synced = false;
	cr_expect(!directory_lock_stands(control, "gpt"), "somebody may");
	fake_registry.synced = true;
	fake_host.elsewhere = false;
	cr_expect(!directory_lock_stands(control, "gpt"), "another daemon does");
}
