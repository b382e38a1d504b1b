#include "ckptd/job_of.h"
#include "job/straggler_watch.h"

#include "base/clock.h"
#include "daemon.h"
#include "job/job.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, LATE = 1, MANY = 40 };

static struct daemon d;
static struct job job;
static struct rank ranks[MANY];
static struct memory mem[MANY];
static uint64_t now;

static void setup(void)
{
	daemon_init(&d);
	job = (struct job){JOB_OF(d), .name = "main", .world = 6, .nlocal = RANKS, .epoch = 2, .ranks = ranks};
	for (uint32_t r = 0; r < MANY; r++) {
		mem[r] = (struct memory){.head = calloc(1, sizeof(struct arena_head))};
		ranks[r] = (struct rank){.job = &job, .id = 3 + r, .index = r, .state = RANK_JOINED, .mem = &mem[r]};
	}
	now = clock_now();
}

static void teardown(void)
{
	for (uint32_t r = 0; r < MANY; r++)
		free(mem[r].head);
}

TestSuite(straggler_watch, .init = setup, .fini = teardown);

/* Steps of a second: these ranks are in the collective for 0.1 s, the others for `wait_ms`. */
static void train_with(uint32_t first, uint32_t last, unsigned seconds, uint64_t wait_ms)
{
	for (unsigned i = 0; i < seconds; i++) {
		now += CLOCK_NS_PER_S;
		for (uint32_t r = 0; r < job.nlocal; r++) {
			mem[r].head->flight.step++;
			mem[r].head->waited.seq += 2;
			mem[r].head->waited.ns += (r >= first && r <= last ? 100 : wait_ms) * CLOCK_NS_PER_MS;
		}
		straggler_watch_tick(&job, now);
	}
}

static void train(unsigned seconds, uint64_t wait_ms)
{
	train_with(LATE, LATE, seconds, wait_ms);
}

Test(straggler_watch, an_episode_has_its_rank_its_cost_and_its_end)
{
	const struct straggler_watch *w = &job.stragglers;
	char text[200];
	train(60, 100);
	cr_assert_eq(w->nepisodes, 0u);
	train(120, 600);
	cr_assert_eq(w->nepisodes, 1u);
	const struct straggler_episode *e = &w->episodes[0];
	cr_expect_eq(e->rank, 4u, "its number in the job");
	cr_expect_eq(e->until_wall_ns, 0u);
	cr_expect_float_eq(e->ratio, 0.9 / 0.4, 0.01);
	cr_expect_float_eq(straggler_cost(e), 0.5, 0.1);
	cr_expect_geq(e->lasted_ns, 100 * CLOCK_NS_PER_S);
	cr_expect_lt(e->since_wall_ns, clock_wall());
	cr_expect(strstr(straggler_text(e, text, sizeof(text)), "rank 4 is a straggler"), "%s", text);
	train(300, 100);
	cr_assert_eq(w->nepisodes, 1u);
	cr_expect_neq(e->until_wall_ns, 0u);
	cr_expect(strstr(straggler_text(e, text, sizeof(text)), "rank 4 is no straggler any more"), "%s", text);
}

Test(straggler_watch, an_epoch_and_a_lost_rank_end_it)
{
	const struct straggler_watch *w = &job.stragglers;
	train(180, 600);
	cr_assert(w->nepisodes == 1 && !w->episodes[0].until_wall_ns);
	job.epoch = 3;
	train(1, 600);
	cr_assert_neq(w->episodes[0].until_wall_ns, 0u);
	train(180, 600);
	cr_assert(w->nepisodes == 2 && !w->episodes[1].until_wall_ns);
	ranks[0].state = RANK_ABSENT;
	train(1, 600);
	cr_assert_neq(w->episodes[1].until_wall_ns, 0u);
	cr_assert_eq(w->now.rounds, 0u);
}

Test(straggler_watch, the_oldest_episodes_make_room)
{
	const struct straggler_watch *w = &job.stragglers;
	for (unsigned i = 0; i < STRAGGLER_EPISODES + 3; i++) {
		job.epoch++;
		train(180, 600);
	}
	cr_assert_eq(w->nepisodes, (uint32_t)STRAGGLER_EPISODES);
	cr_expect_eq(w->episodes[STRAGGLER_EPISODES - 1].until_wall_ns, 0u, "the newest goes on");
	for (unsigned i = 0; i + 1 < STRAGGLER_EPISODES; i++)
		cr_expect(w->episodes[i].until_wall_ns && w->episodes[i].since_ns < w->episodes[i + 1].since_ns);
}

Test(straggler_watch, more_late_ranks_than_there_is_room_for_are_not_told_again_and_again)
{
	const struct straggler_watch *w = &job.stragglers;
	struct straggler_episode before[STRAGGLER_EPISODES];
	job.nlocal = MANY;
	train_with(0, STRAGGLER_EPISODES, 180, 600);
	cr_assert_eq(w->nepisodes, (uint32_t)STRAGGLER_EPISODES);
	memcpy(before, w->episodes, sizeof(before));
	train_with(0, STRAGGLER_EPISODES, 60, 600);
	for (unsigned i = 0; i < STRAGGLER_EPISODES; i++) {
		cr_expect_eq(w->episodes[i].rank, before[i].rank);
		cr_expect_eq(w->episodes[i].since_wall_ns, before[i].since_wall_ns);
	}
}
