#include "ckptd/job_of.h"
#include "job/standstill.h"

#include "base/clock.h"
#include "daemon.h"
#include "job/job.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define S CLOCK_NS_PER_S

static struct standstill s;
static struct suspect all[3];

static void setup(void)
{
	memset(&s, 0, sizeof(s));
	for (uint32_t i = 0; i < 3; i++)
		all[i] = (struct suspect){.rank = i,
					  .is = {.beat_ns = 100 * S + i,
						 .step = 7,
						 .in_collective = i != 1,
						 .collective = 9,
						 .since_ns = 100 * S,
						 .op = "barrier"}};
}

TestSuite(standstill, .init = setup);

/* The longest step takes 3 s: twice that, and 2 s. */
Test(standstill, it_begins_two_long_steps_and_two_seconds_after_the_last_heartbeat)
{
	cr_assert_not(standstill_look(&s, all, 3, 3 * S, 108 * S));
	cr_assert_not(s.is);
	cr_assert(standstill_look(&s, all, 3, 3 * S, 108 * S + 3));
	cr_assert(s.is && s.named);
	cr_expect_eq(s.rank, 1u);
	cr_expect_eq(s.since_ns, 100 * S + 2);
	cr_expect_str_eq(s.text, "rank 1 is waited for: last at step 7, in no collective; rank 0 and others are in "
				 "barrier #9 of 0 bytes");
	cr_assert_not(standstill_look(&s, all, 3, 3 * S, 120 * S), "it was told");
	all[2].is.beat_ns = 121 * S;
	cr_assert(standstill_look(&s, all, 3, 3 * S, 122 * S));
	cr_assert(!s.is && !s.named);
}

Test(standstill, one_heartbeat_is_enough)
{
	all[2].is.beat_ns = 117 * S;
	cr_assert_not(standstill_look(&s, all, 3, 3 * S, 120 * S));
}

Test(standstill, without_known_steps_and_ranks_there_is_none)
{
	cr_assert_not(standstill_look(&s, all, 3, 0, 1000 * S));
	cr_assert_not(standstill_look(&s, all, 0, 3 * S, 1000 * S));
	all[0].is.beat_ns = all[1].is.beat_ns = all[2].is.beat_ns = 0;
	cr_assert_not(standstill_look(&s, all, 3, 3 * S, 1000 * S), "nobody has begun");
	all[0].is.beat_ns = UINT64_MAX;
	cr_assert_not(standstill_look(&s, all, 3, UINT64_MAX, 1000 * S));
}

Test(standstill, nobody_is_named_where_all_wait_alike)
{
	all[1].is.in_collective = true;
	cr_assert(standstill_look(&s, all, 3, S, 120 * S));
	cr_assert(s.is && !s.named);
	cr_expect(strstr(s.text, "none of its ranks here stands out"), "%s", s.text);
	all[0].is.collective = 8;
	cr_assert(standstill_look(&s, all, 3, S, 121 * S), "now somebody is");
	cr_assert(s.named && s.rank == 0);
}

/* ---- of a job ---- */

static struct daemon d;
static struct job job;
static struct rank ranks[2];
static struct memory mem[2];

static void job_up(void)
{
	daemon_init(&d);
	memset(&job, 0, sizeof(job));
	job = (struct job){JOB_OF(d), .name = "main", .world = 2, .nlocal = 2, .epoch = 2, .ranks = ranks};
	for (uint32_t r = 0; r < 2; r++) {
		mem[r] = (struct memory){.head = calloc(1, sizeof(struct arena_head))};
		ranks[r] = (struct rank){.job = &job, .id = r, .index = r, .state = RANK_JOINED, .mem = &mem[r]};
		for (unsigned i = 0; i <= STANDSTILL_KNOWN; i++)
			pace_beat(&ranks[r].pace, 2, i, (90 + i) * S);
	}
}

static void job_down(void)
{
	for (uint32_t r = 0; r < 2; r++)
		free(mem[r].head);
}

TestSuite(standstill_job, .init = job_up, .fini = job_down);

static void beat(uint64_t step, uint64_t at)
{
	for (uint32_t r = 0; r < 2; r++) {
		mem[r].head->flight.step = step;
		mem[r].head->flight.beat_ns = at;
	}
	standstill_tick(&job, at);
}

Test(standstill_job, what_is_loaded_after_a_restore_is_no_standstill)
{
	beat(8, 100 * S);
	standstill_tick(&job, 200 * S);
	cr_assert_not(job.standstill.is, "no step was made in this epoch");
	beat(9, 200 * S);
	standstill_tick(&job, 203 * S);
	cr_assert_not(job.standstill.is);
	standstill_tick(&job, 205 * S);
	cr_assert(job.standstill.is);
	job.epoch = 3;
	standstill_tick(&job, 206 * S);
	cr_assert_not(job.standstill.is, "a new epoch: it begins anew");
}

Test(standstill_job, ranks_that_wait_for_the_daemon_do_not_stand_still)
{
	beat(8, 100 * S);
	beat(9, 101 * S);
	ranks[1].restoring.seq = 4;
	standstill_tick(&job, 200 * S);
	cr_assert_not(job.standstill.is);
	ranks[1].restoring.seq = 0;
	ranks[0].state = RANK_LEFT;
	standstill_tick(&job, 200 * S);
	cr_assert_not(job.standstill.is);
}

Test(standstill_job, too_few_steps_are_no_measure)
{
	ranks[1].pace = (struct pace){0};
	beat(8, 100 * S);
	beat(9, 101 * S);
	standstill_tick(&job, 200 * S);
	cr_assert_not(job.standstill.is);
}
