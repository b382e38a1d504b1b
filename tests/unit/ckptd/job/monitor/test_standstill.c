#include "ckptd/job_of.h"
#include "job/monitor/standstill.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/room.h"
#include "daemon.h"
#include "job/job.h"
#include "job/rank/rank.h"

#include <criterion/criterion.h>
#include <math.h>
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

#define SILENCE (7 * S)

Test(standstill, ranks_are_silent_so_long_after_the_last_heartbeat)
{
	uint64_t last = 100 * S + 2, silence = SILENCE;
	cr_assert_not(standstill_look(&s, all, 3, silence, last + silence));
	cr_assert_eq(s.said.n, 0u);
	cr_assert(standstill_look(&s, all, 3, silence, last + silence + 1));
	cr_assert_eq(s.said.n, 3u);
	cr_expect(s.said.of[1].rank == 1 && !s.said.of[1].is.in_collective && s.said.of[0].is.in_collective);
	cr_expect_eq(s.said.of[2].is.beat_ns, silence + 1, "its age");
	cr_assert_not(standstill_look(&s, all, 3, SILENCE, 120 * S), "it was said");
	all[2].is.beat_ns = 121 * S;
	cr_assert(standstill_look(&s, all, 3, SILENCE, 122 * S));
	cr_assert_eq(s.said.n, 0u);
	cr_assert_not(standstill_look(&s, all, 3, SILENCE, 122 * S));
}

Test(standstill, one_heartbeat_is_enough)
{
	all[2].is.beat_ns = 117 * S;
	cr_assert_not(standstill_look(&s, all, 3, SILENCE, 120 * S));
}

Test(standstill, without_known_steps_and_ranks_there_is_none)
{
	cr_assert_not(standstill_look(&s, all, 3, 0, 1000 * S));
	cr_assert_not(standstill_look(&s, all, 0, SILENCE, 1000 * S));
	all[0].is.beat_ns = all[1].is.beat_ns = all[2].is.beat_ns = 0;
	cr_assert_not(standstill_look(&s, all, 3, SILENCE, 1000 * S), "nobody has begun");
	all[0].is.beat_ns = UINT64_MAX;
	cr_assert_not(standstill_look(&s, all, 3, UINT64_MAX, 1000 * S));
}

Test(standstill, who_is_killed_while_it_is_stopped_is_the_one_that_is_waited_for_still)
{
	standstill_keep_stopped(&s, all, 3);
	cr_expect_not(all[0].stopped || all[1].stopped || all[2].stopped, "nobody was");
	all[1].stopped = true;
	standstill_keep_stopped(&s, all, 3);
	cr_assert(standstill_look(&s, all, 3, SILENCE, 120 * S));
	all[1].stopped = false; /* its process ends, which is not known yet */
	standstill_keep_stopped(&s, all, 3);
	cr_expect(all[1].stopped && !all[0].stopped && !all[2].stopped);
	cr_expect_not(standstill_look(&s, all, 3, SILENCE, 122 * S), "nothing has changed");
	all[1].stopped = false;
	all[1].is.beat_ns = 123 * S;
	standstill_keep_stopped(&s, all, 3);
	cr_expect_not(all[1].stopped, "it goes on");
	all[1].is.beat_ns = 0;
	standstill_keep_stopped(&s, all, 3);
	cr_expect_not(all[1].stopped, "another process of that rank");
}

Test(standstill, who_is_elsewhere_is_said_once_in_a_second)
{
	cr_assert(standstill_look(&s, all, 3, SILENCE, 120 * S));
	all[1].stopped = true;
	cr_assert_not(standstill_look(&s, all, 3, SILENCE, 120 * S + S / 2));
	cr_assert(standstill_look(&s, all, 3, SILENCE, 121 * S));
	cr_assert(s.said.of[1].stopped);
	all[1].is.collective = 8;
	all[0].is.beat_ns = 121 * S;
	cr_assert(standstill_look(&s, all, 3, SILENCE, 121 * S + 1), "the end does not wait");
	cr_assert_eq(s.said.n, 0u);
}

Test(standstill, ranks_are_said_in_their_order)
{
	all[0].rank = 9;
	all[2].rank = 4;
	cr_assert(standstill_look(&s, all, 3, SILENCE, 120 * S));
	cr_expect(s.said.of[0].rank == 1 && s.said.of[1].rank == 4 && s.said.of[2].rank == 9);
	cr_expect(!s.said.of[0].is.in_collective);
}

/* ---- how long is too long ---- */

Test(standstill, two_steps_and_two_seconds_are_the_limit_while_the_longest_step_is_far_below)
{
	const uint64_t ms = S / 1000;
	cr_expect_eq(standstill_silence(15 * ms, 15 * ms), 1730 * ms);
	cr_expect_eq(standstill_silence(15 * ms, 800 * ms), 1730 * ms, "a busy machine");
	cr_expect_eq(standstill_silence(15 * ms, 5 * S), 10075 * ms, "an evaluation now and then");
	cr_expect_eq(standstill_silence(3 * S, 3 * S), 7700 * ms);
	cr_expect_eq(standstill_silence(3 * S, 8 * S), 17700 * ms, "such steps come again");
	cr_expect_eq(standstill_silence(0, 0), 1700 * ms);
	cr_expect_gt(standstill_silence(UINT64_MAX, UINT64_MAX), UINT64_MAX / 2);
	cr_expect_gt(standstill_silence(1, UINT64_MAX), UINT64_MAX / 2 - 1);
}

/* A rank's steps in a job of some ranks, each of which computes for the median now and for longer then: the step lasts until the slowest has come. */
struct noise {
	uint32_t ranks;
	double median_s, p99, memory;
};

static uint64_t seed;

static double uniform(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return ((double)(seed >> 11) + 0.5) / (double)(1ull << 53);
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static double step_of(const struct noise *noise, double state[])
{
	double sigma = log(noise->p99) / 2.3263, longest = 0;
	for (uint32_t r = 0; r < noise->ranks; r++) {
		state[r] = noise->memory * state[r] + sqrt(1 - noise->memory * noise->memory) * normal();
		longest = fmax(longest, noise->median_s * exp(sigma * state[r]));
	}
	return longest;
}

struct quiet {
	unsigned steps, silent, late; /* late: the silence would have been longer than two medians and 2 s */
};

/* For so long nobody hangs. */
static struct quiet quiet_minutes(const struct noise *noise, double minutes)
{
	struct pace pace = {0};
	struct quiet q = {0};
	double state[8] = {0}, now_s = 1;
	seed = 7;
	pace_beat(&pace, 1, 0, S);
	for (uint64_t step = 1; now_s < 60 * minutes; step++) {
		double took = step_of(noise, state);
		uint64_t median = pace_median_us(&pace) * 1000ull, longest = 0;
		for (uint32_t i = 0; i < pace.nrecent; i++)
			longest = max_u64(longest, pace.recent_us[i] * 1000ull);
		uint64_t silence = standstill_silence(median, longest);
		bool known = pace.steps.count >= STANDSTILL_KNOWN;
		q.steps += known;
		q.silent += known && took * S > (double)silence;
		q.late += known && silence > 2 * median + 2 * S;
		now_s += took;
		pace_beat(&pace, 1, step, (uint64_t)(now_s * S));
	}
	return q;
}

Test(standstill, in_quiet_minutes_with_short_steps_none_is_silent_and_a_hang_would_be_known_in_time)
{
	static const struct noise rows[] = {
		{1, 0.03, 3, 0}, {1, 0.1, 3, 0}, {1, 0.1, 3, 0.9}, {8, 0.1, 2, 0}, {8, 0.1, 3, 0}};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct quiet q = quiet_minutes(&rows[i], 100);
		cr_expect_gt(q.steps, 10000u);
		cr_expect_eq(q.silent, 0u, "row %u", i);
		cr_expect_leq(q.late, q.steps / 20, "row %u: %u of %u", i, q.late, q.steps);
	}
}

/* With steps of seconds, 2 s say little: what was seen of their length decides. */
Test(standstill, in_quiet_minutes_with_long_steps_hardly_any_is_silent)
{
	static const struct noise rows[] = {{1, 1, 2, 0},   {8, 1, 2, 0},   {8, 1, 3, 0.9},
					    {1, 5, 2, 0.5}, {8, 5, 3, 0.9}, {8, 30, 2, 0}};
	static const struct noise worst[] = {{8, 1, 3, 0}, {1, 5, 3, 0}, {8, 5, 3, 0}};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_eq(quiet_minutes(&rows[i], 1000).silent, 0u, "row %u", i);
	for (unsigned i = 0; i < sizeof(worst) / sizeof(worst[0]); i++)
		cr_expect_leq(quiet_minutes(&worst[i], 1000).silent, 3u, "worst %u", i);
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

/* ---- in the first steps of an epoch, where hang-timeout is the measure ---- */

Test(standstill_job, a_hang_in_the_first_steps_is_known_after_the_hang_timeout)
{
	job.policy.hang_timeout_ms = 60000;
	job.entered_ns = 99 * S;
	beat(8, 100 * S);
	cr_assert_not(are_silent(160 * S));
	cr_assert(are_silent(160 * S + 1), "no step was made in this epoch");
	beat(9, 161 * S);
	cr_assert_eq(job.standstill.said.n, 0u);
	cr_assert(are_silent(166 * S), "its own steps are the measure from now on");
}

Test(standstill_job, ranks_that_have_beaten_before_are_counted_from_their_entry)
{
	job.policy.hang_timeout_ms = 60000;
	beat(8, 100 * S);
	job.epoch = 3;
	job.entered_ns = 190 * S;
	cr_assert_not(are_silent(250 * S));
	cr_assert(are_silent(251 * S));
	cr_expect_eq(job.standstill.said.of[0].is.beat_ns, 61 * S, "since they have entered");
}

Test(standstill_job, with_few_steps_a_hang_is_known_after_the_hang_timeout)
{
	job.policy.hang_timeout_ms = 60000;
	ranks[1].pace = (struct pace){0};
	beat(8, 100 * S);
	beat(9, 101 * S);
	cr_assert_not(are_silent(161 * S));
	cr_assert(are_silent(162 * S));
}

Test(standstill_job, ranks_that_give_no_heartbeats_do_not_stand_still)
{
	job.policy.hang_timeout_ms = 60000;
	job.entered_ns = 99 * S;
	cr_assert_not(are_silent(900 * S));
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

/* Of all ranks here the same. */
static uint64_t shown(uint64_t now)
{
	standstill_tick(&job, now);
	cr_assert_eq(mem[0].head->named, mem[1].head->named);
	return mem[0].head->named;
}

Test(standstill_job, the_arenas_show_who_is_waited_for)
{
	struct peer_standstill nobody = rank_1;
	nobody.named = false;
	mem[0].head->named = mem[1].head->named = arena_named(2, 0); /* the word of a daemon that was lost */
	stand();
	cr_expect_eq(shown(200 * S), 0u);
	standstill_hear(&job, &rank_1);
	cr_expect_eq(shown(201 * S), arena_named(2, 1));
	standstill_hear(&job, &nobody);
	cr_expect_eq(shown(202 * S), arena_named(2, ARENA_NOBODY));
	standstill_hear(&job, &rank_1);
	cr_expect_eq(shown(203 * S), arena_named(2, 1));
	beat(10, 204 * S);
	cr_expect_eq(shown(204 * S), 0u);
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
