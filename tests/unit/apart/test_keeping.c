/* What the arenas of the ranks here have for ranks of another division (job/rank/keeping.h). */
#include "ckptd/job_of.h"
#include "job/rank/keeping.h"
#include "replication/room.h"

#include "fakes.h"

#include <criterion/criterion.h>
#include <string.h>

enum { LOCAL = 2, FIRST = 4, WORLD = 8, LISTED_MAX = 8 };

static const struct step_id s10 = {10, 1};

static struct daemon daemon;
static struct rank ranks[LOCAL];
static struct part parts[LOCAL];
static struct snapshot snapshot;
static struct table tables[LOCAL];
static struct arena_head heads[LOCAL];
static struct memory mems[LOCAL];
static struct job job;
static struct replica_item listed[LISTED_MAX];
static unsigned nlisted;

static void setup(void)
{
	fakes_reset();
	daemon_init(&daemon);
	daemon.peers.self = 3;
	job = (struct job){JOB_OF(daemon),  .name = "gpt",  .world = WORLD,
			   .nlocal = LOCAL, .spread = true, .ranks = ranks};
	job.resize.plan = 7;
	for (uint32_t r = 0; r < LOCAL; r++) {
		tables[r] = (struct table){.reg = {.rank = FIRST + r, .world = WORLD}};
		mems[r] = (struct memory){.head = &heads[r], .table = &tables[r], .sum = {.low = 100 + r}};
		ranks[r] = (struct rank){.job = &job, .id = FIRST + r, .index = r, .mem = &mems[r]};
		parts[r] = (struct part){.mem = &mems[r], .slot = 1 + r};
	}
	snapshot = (struct snapshot){.id = s10, .state = SNAPSHOT_CAPTURED, .parts = parts, .nparts = LOCAL};
	list_init(&job.saves.snapshots);
	list_push(&job.saves.snapshots, &snapshot.link);
	fake_saves = (struct fake_saves){.snapshot = &snapshot, .job = &job};
}

TestSuite(keeping, .init = setup);

static void note(void *to, const struct replica_item *item)
{
	cr_assert_eq(to, &nlisted);
	cr_assert_lt(nlisted, LISTED_MAX);
	listed[nlisted++] = *item;
}

static unsigned list_of(const char *name)
{
	nlisted = 0;
	keeping_list(&daemon.jobs, name, note, &nlisted);
	return nlisted;
}

Test(keeping, of_each_rank_is_told_what_stands_in_its_arena)
{
	cr_assert_eq(list_of("gpt"), LOCAL);
	for (uint32_t r = 0; r < LOCAL; r++) {
		cr_expect(listed[r].rank == FIRST + r && listed[r].world == WORLD && listed[r].owner == 3);
		cr_expect_eq(step_compare(listed[r].id, s10), 0);
		cr_expect(digest_equal(listed[r].table, mems[r].sum));
	}
}

Test(keeping, another_job_has_nothing)
{
	cr_expect_eq(list_of("bert"), 0);
}

Test(keeping, the_ranks_of_a_job_without_a_plan_stay_where_they_are)
{
	job.resize.plan = 0;
	cr_expect_eq(list_of("gpt"), 0);
}

Test(keeping, of_arenas_that_were_made_since_nothing_is_told)
{
	static struct memory other;
	ranks[1].mem = &other;
	cr_expect_eq(list_of("gpt"), 0);
}

Test(keeping, what_is_on_storage_is_taken_from_there)
{
	job.copies.durable = s10;
	cr_expect_eq(list_of("gpt"), 0);
}

Test(keeping, a_snapshot_without_a_part_is_not_told)
{
	snapshot.nparts = 1;
	cr_expect_eq(list_of("gpt"), 0);
}
