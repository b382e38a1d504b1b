#include "ckptd/job_of.h"
#include "job/standstill.h"

#include "base/clock.h"
#include "cluster/room.h"
#include "daemon.h"
#include "job/job.h"
#include "job/rank.h"

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

/* The longest step takes 3 s: twice that, and 1.8 s. */
Test(standstill, ranks_are_silent_two_long_steps_and_not_quite_two_seconds_after_the_last_heartbeat)
{
	uint64_t last = 100 * S + 2, silence = standstill_silence(3 * S);
	cr_expect(silence > 7 * S && silence < 8 * S, "within two steps and two seconds");
	cr_assert_not(standstill_look(&s, all, 3, 3 * S, last + silence));
	cr_assert_eq(s.said.n, 0u);
	cr_assert(standstill_look(&s, all, 3, 3 * S, last + silence + 1));
	cr_assert_eq(s.said.n, 3u);
	cr_expect(s.said.of[1].rank == 1 && !s.said.of[1].is.in_collective && s.said.of[0].is.in_collective);
	cr_expect_eq(s.said.of[2].is.beat_ns, silence + 1, "its age");
	cr_assert_not(standstill_look(&s, all, 3, 3 * S, 120 * S), "it was said");
	all[2].is.beat_ns = 121 * S;
	cr_assert(standstill_look(&s, all, 3, 3 * S, 122 * S));
	cr_assert_eq(s.said.n, 0u);
	cr_assert_not(standstill_look(&s, all, 3, 3 * S, 122 * S));
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

Test(standstill, who_is_elsewhere_is_said_once_in_a_second)
{
	cr_assert(standstill_look(&s, all, 3, S, 120 * S));
	all[1].stopped = true;
	cr_assert_not(standstill_look(&s, all, 3, S, 120 * S + S / 2));
	cr_assert(standstill_look(&s, all, 3, S, 121 * S));
	cr_assert(s.said.of[1].stopped);
	all[1].is.collective = 8;
	all[0].is.beat_ns = 121 * S;
	cr_assert(standstill_look(&s, all, 3, S, 121 * S + 1), "the end does not wait");
	cr_assert_eq(s.said.n, 0u);
}

Test(standstill, ranks_are_said_in_their_order)
{
	all[0].rank = 9;
	all[2].rank = 4;
	cr_assert(standstill_look(&s, all, 3, S, 120 * S));
	cr_expect(s.said.of[0].rank == 1 && s.said.of[1].rank == 4 && s.said.of[2].rank == 9);
	cr_expect(!s.said.of[0].is.in_collective);
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

static bool are_silent(uint64_t now)
{
	standstill_tick(&job, now);
	return job.standstill.said.n == 2;
}

Test(standstill_job, what_is_loaded_after_a_restore_is_no_standstill)
{
	beat(8, 100 * S);
	cr_assert_not(are_silent(200 * S), "no step was made in this epoch");
	beat(9, 200 * S);
	cr_assert_not(are_silent(203 * S));
	cr_assert(are_silent(205 * S));
	job.epoch = 3;
	cr_assert_not(are_silent(206 * S), "a new epoch: it begins anew");
}

Test(standstill_job, steps_that_are_done_again_after_a_restore_are_steps)
{
	beat(8, 100 * S);
	beat(12, 101 * S);
	job.epoch = 3;
	job.entered_ns = 102 * S;
	cr_assert_not(are_silent(103 * S));
	beat(10, 104 * S);
	cr_assert_not(are_silent(200 * S), "no step was made in this epoch");
	beat(11, 201 * S);
	cr_assert(are_silent(206 * S));
}

Test(standstill_job, ranks_that_wait_for_the_daemon_do_not_stand_still)
{
	beat(8, 100 * S);
	beat(9, 101 * S);
	ranks[1].restoring.seq = 4;
	cr_assert_not(are_silent(200 * S));
	ranks[1].restoring.seq = 0;
	ranks[0].state = RANK_LEFT;
	cr_assert_not(are_silent(200 * S));
}

static void watch(uint64_t step, uint64_t at, uint64_t now)
{
	mem[0].head->flight.step = step;
	mem[0].head->flight.beat_ns = at;
	rank_watch_beat(&ranks[0], now);
}

/* Else the time for which it hung would count as a step, and the next hang be no longer than two of these. */
Test(standstill_job, a_step_that_is_done_again_after_a_hang_does_not_last_since_the_heartbeat_before_it)
{
	job.entered_ns = 104 * S;
	ranks[0].pace = (struct pace){0};
	watch(8, 100 * S, 105 * S);
	watch(8, 106 * S, 106 * S);
	watch(9, 107 * S, 107 * S);
	cr_assert_eq(ranks[0].pace.nrecent, 1u);
	cr_expect_eq(ranks[0].pace.recent_us[0], 1000000u, "%u", ranks[0].pace.recent_us[0]);
}

Test(standstill_job, too_few_steps_are_no_measure)
{
	ranks[1].pace = (struct pace){0};
	beat(8, 100 * S);
	beat(9, 101 * S);
	cr_assert_not(are_silent(200 * S));
}

/* ---- what the coordinator says ---- */

static void stand(void)
{
	beat(8, 100 * S);
	beat(9, 101 * S);
	cr_assert(are_silent(200 * S));
}

static const struct peer_standstill rank_1 = {
	.epoch = 2, .is = true, .named = true, .rank = 1, .silent_ns = S, .text = "last at step 9, in no collective"};

Test(standstill_job, the_rank_that_is_waited_for_is_told_until_a_heartbeat_comes)
{
	stand();
	standstill_hear(&job, &rank_1);
	cr_assert(job.standstill.is && job.standstill.named);
	cr_expect_eq(job.standstill.rank, 1u);
	cr_expect_str_eq(job.standstill.text, "rank 1 is waited for: last at step 9, in no collective");
	cr_expect(clock_now() - job.standstill.since_ns >= S && clock_now() - job.standstill.since_ns < 60 * S);
	beat(10, 201 * S);
	cr_assert(!job.standstill.is && !job.standstill.named);
}

Test(standstill_job, a_rank_on_another_node_is_told_with_its_node)
{
	struct roster_node nodes[2] = {{.name = "a"}, {.name = "b"}};
	struct roster roster = {.nodes = nodes, .n = 2};
	struct peer_standstill m = rank_1;
	d.peers.roster = &roster;
	job.spread = true;
	stand();
	m.node = 2;
	standstill_hear(&job, &m);
	cr_assert_not(job.standstill.is, "no node is that");
	m.node = 1;
	standstill_hear(&job, &m);
	cr_expect_str_eq(job.standstill.text, "rank 1 on node b is waited for: last at step 9, in no collective");
	m.named = false;
	standstill_hear(&job, &m);
	cr_expect(strstr(job.standstill.text, "none of its ranks stands out: rank 1 on node b was last at"), "%s",
		  job.standstill.text);
	cr_assert(job.standstill.is && !job.standstill.named);
	m.is = false;
	standstill_hear(&job, &m);
	cr_assert_not(job.standstill.is);
	d.peers.roster = NULL;
}

Test(standstill_job, what_does_not_fit_the_job_is_not_told)
{
	struct peer_standstill m = rank_1;
	standstill_hear(&job, &m);
	cr_assert_not(job.standstill.is, "here are heartbeats");
	stand();
	m.epoch = 1;
	standstill_hear(&job, &m);
	m = rank_1;
	m.rank = 2;
	standstill_hear(&job, &m);
	cr_assert_not(job.standstill.is);
	m = rank_1;
	m.silent_ns = UINT64_MAX;
	standstill_hear(&job, &m);
	cr_assert(job.standstill.is && !job.standstill.since_ns);
	m.epoch = 1;
	m.is = false;
	standstill_hear(&job, &m);
	cr_assert(job.standstill.is, "that is of another epoch");
}

Test(standstill_job, another_coordinator_is_told_anew)
{
	stand();
	standstill_hear(&job, &rank_1);
	standstill_anew(&job);
	cr_assert(!job.standstill.is && !job.standstill.said.n);
	cr_assert(are_silent(300 * S));
}
