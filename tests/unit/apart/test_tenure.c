/* Two daemons of a cluster on one store, over the real disk. */
#include "checkpoint/directory_lock.h"

#include "fakes.h"
#include "scratch.h"
#include "store/disk.h"
#include "store/repo.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { DAEMONS = 2 };

static char path[SCRATCH_MAX];
static struct daemon daemons[DAEMONS];
static int tenure[DAEMONS];
static struct err err;

static void setup(void)
{
	fakes_reset();
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	for (int i = 0; i < DAEMONS; i++) {
		daemons[i] = (struct daemon){.config = {.store = path, .cluster = "c"}};
		cr_assert_eq(disk_new(path, &daemons[i].disk, &daemons[i].root, &err), 0, "%s", err.text);
		tenure[i] = TENURE_NONE;
	}
}

static void teardown(void)
{
	for (int i = 0; i < DAEMONS; i++) {
		tenure_give(&daemons[i], &tenure[i]);
		disk_free(daemons[i].disk);
	}
	scratch_remove(path);
}

TestSuite(tenure, .init = setup, .fini = teardown);

static int take(int i, const char *job)
{
	return tenure_take(&daemons[i], job, &tenure[i], &err);
}

Test(tenure, one_daemon_has_it_until_it_gives_it_back)
{
	cr_assert_eq(take(0, "gpt"), 0, "%s", err.text);
	cr_expect(tenure[0] >= 0);
	cr_expect_eq(take(1, "gpt"), -EBUSY);
	cr_expect_eq(tenure[1], TENURE_NONE);
	cr_expect(strstr(err.text, "job 'gpt' is the business of another daemon"), "%s", err.text);
	cr_expect(strstr(err.text, "/gpt/" TENURE_FILE), "%s", err.text);
	tenure_give(&daemons[0], &tenure[0]);
	cr_expect_eq(tenure[0], TENURE_NONE);
	tenure_give(&daemons[0], &tenure[0]); /* nothing to give */
	cr_expect_eq(take(1, "gpt"), 0, "%s", err.text);
}

Test(tenure, another_job_is_another_matter)
{
	cr_expect_eq(take(0, "gpt"), 0, "%s", err.text);
	cr_expect_eq(take(1, "bert"), 0, "%s", err.text);
}

Test(tenure, a_daemon_that_is_alone_or_has_no_store_needs_none)
{
	struct stat st;
	char job[2 * SCRATCH_MAX];
	snprintf(job, sizeof(job), "%s/gpt", path);
	daemons[0].config.cluster = NULL;
	cr_expect(take(0, "gpt") == 0 && tenure[0] == TENURE_NONE);
	int root = daemons[1].root;
	daemons[1].root = -1;
	cr_expect(take(1, "gpt") == 0 && tenure[1] == TENURE_NONE);
	daemons[1].root = root;
	cr_expect(stat(job, &st), "nothing was made");
}

Test(tenure, what_stands_in_the_way_is_named)
{
	scratch_write(path, "gpt", "", 0);
	cr_expect_eq(take(0, "gpt"), -ENOTDIR, "%s", err.text);
	cr_expect(strstr(err.text, "/gpt: "), "%s", err.text);
	cr_expect_eq(tenure[0], TENURE_NONE);
}

Test(tenure, who_coordinates_a_job_may_remove_what_is_of_it_and_another_one_may_not)
{
	int other;
	cr_assert_eq(take(0, "gpt"), 0, "%s", err.text);
	cr_expect(!tenure_to_remove(&daemons[1], "gpt", &other));
	cr_expect_eq(other, TENURE_NONE);
	fake_chair.has = true;
	cr_expect(tenure_to_remove(&daemons[0], "gpt", &other) && other == TENURE_NONE, "it has it already");
}

Test(tenure, litter_of_a_job_that_nobody_coordinates_may_be_removed_by_one_at_a_time)
{
	int other;
	cr_expect(tenure_to_remove(&daemons[0], "gpt", &tenure[0]) && tenure[0] >= 0);
	cr_expect(!tenure_to_remove(&daemons[1], "gpt", &other));
	tenure_give(&daemons[0], &tenure[0]);
	cr_expect(tenure_to_remove(&daemons[1], "gpt", &tenure[1]) && tenure[1] >= 0);
	cr_expect(tenure_to_remove(&daemons[0], "", &other) && other == TENURE_NONE, "of the store, not of a job");
}
