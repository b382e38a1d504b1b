/* What is told of the ranks here, and what is heard of all ranks and nodes. */
#include "ckptd/job_of.h"
#include "job/monitor/straggler_watch.h"

#include "base/clock.h"
#include "cluster/room.h"
#include "daemon.h"
#include "job/job.h"
#include "replication/room.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3 };

static struct daemon d;
static struct job job;
static struct rank ranks[RANKS];
static struct memory mem[RANKS];
static uint64_t now;

static void setup(void)
{
	daemon_init(&d);
	job = (struct job){JOB_OF(d), .name = "main", .world = 6, .nlocal = RANKS, .epoch = 2, .ranks = ranks};
	for (uint32_t r = 0; r < RANKS; r++) {
		mem[r] = (struct memory){.head = calloc(1, sizeof(struct arena_head))};
		ranks[r] = (struct rank){.job = &job, .id = 3 + r, .index = r, .state = RANK_JOINED, .mem = &mem[r]};
	}
	now = clock_now();
}

static void teardown(void)
{
	for (uint32_t r = 0; r < RANKS; r++)
		free(mem[r].head);
}

TestSuite(straggler_watch, .init = setup, .fini = teardown);

/* Steps of a second, half of which the ranks wait. */
static void train(unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		now += CLOCK_NS_PER_S;
		for (uint32_t r = 0; r < job.nlocal; r++) {
			mem[r].head->flight.step++;
			mem[r].head->waited.seq += 2;
			mem[r].head->waited.ns += CLOCK_NS_PER_S / 2;
		}
		straggler_watch_tick(&job, now);
	}
}

static struct peer_straggler late(uint32_t rank, uint64_t seconds)
{
	return (struct peer_straggler){.rank = rank,
				       .node = rank < 3,
				       .ratio = 2250,
				       .lasted_ns = seconds * CLOCK_NS_PER_S,
				       .lost_ns = seconds * CLOCK_NS_PER_S / 2};
}

static void hear(struct peer_straggler is)
{
	straggler_watch_hear(&job, &(struct peer_stragglers){.epoch = job.epoch, .n = 1, .of = {is}});
}

static void hear_of_nobody(void)
{
	straggler_watch_hear(&job, &(struct peer_stragglers){.epoch = job.epoch});
}

static bool is_late(uint32_t i)
{
	return job.stragglers.nepisodes > i && !job.stragglers.episodes[i].until_wall_ns;
}

static void spread_out(struct roster *roster)
{
	static struct roster_node nodes[] = {{.name = "a"}, {.name = "b"}};
	*roster = (struct roster){.n = 2, .nodes = nodes};
	job.peers->roster = roster;
	job.spread = true;
}

/* A round has 5 s and 8 steps. */
Test(straggler_watch, how_far_the_ranks_are_is_told_once_in_a_round)
{
	const struct peer_pace *said = &job.stragglers.said;
	ranks[0].id = 5;
	ranks[2].id = 3;
	train(1);
	cr_assert(said->n == RANKS && said->clock_ns == now);
	cr_expect(said->of[0].rank == 3 && said->of[1].rank == 4 && said->of[2].rank == 5, "in their order");
	cr_expect(said->of[0].step == 1 && said->of[0].left == 1 && said->of[0].waited_ns == CLOCK_NS_PER_S / 2);
	train(7);
	cr_expect_eq(said->of[0].step, 1u);
	train(1);
	cr_expect_eq(said->of[0].step, 9u);
	for (unsigned i = 0; i < 20; i++)
		mem[i & 1].head->flight.step++;
	now += 100 * CLOCK_NS_PER_S;
	straggler_watch_tick(&job, now);
	cr_expect_eq(said->of[0].step, 9u, "not while one of them is in its first steps");
}

Test(straggler_watch, ranks_that_keep_no_flight_records_have_nothing_to_tell)
{
	mem[0].head->flight.step = 100;
	now += 100 * CLOCK_NS_PER_S;
	straggler_watch_tick(&job, now);
	cr_expect_eq(job.stragglers.said.n, 0u);
	train(1);
	cr_expect_eq(job.stragglers.said.n, (uint32_t)RANKS);
}

Test(straggler_watch, an_episode_has_its_rank_its_cost_and_its_end)
{
	const struct straggler_watch *w = &job.stragglers;
	char text[320];
	train(1);
	hear_of_nobody();
	cr_assert_eq(w->nepisodes, 0u);
	hear(late(4, 100));
	cr_assert_eq(w->nepisodes, 1u);
	const struct straggler_episode *e = &w->episodes[0];
	cr_expect_eq(e->rank, 4u);
	cr_expect_eq(e->until_wall_ns, 0u);
	cr_expect_float_eq(e->ratio, 2.25, 0.001);
	cr_expect_float_eq(straggler_cost(e), 0.5, 0.001);
	cr_expect_lt(e->since_wall_ns, clock_wall() - 99 * CLOCK_NS_PER_S);
	cr_expect(strstr(straggler_text(e, text, sizeof(text)), "rank 4 is a straggler"), "%s", text);
	hear(late(4, 200));
	cr_assert_eq(w->nepisodes, 1u);
	cr_expect_eq(e->lasted_ns, 200 * CLOCK_NS_PER_S);
	hear_of_nobody();
	cr_assert_neq(e->until_wall_ns, 0u);
	cr_expect(strstr(straggler_text(e, text, sizeof(text)), "rank 4 is no straggler any more"), "%s", text);
}

Test(straggler_watch, on_other_nodes_ranks_have_their_node_and_nodes_are_told_too)
{
	static struct roster roster;
	char text[320];
	spread_out(&roster);
	d.runtime.config.node = "a";
	train(1);
	hear(late(1, 100));
	straggler_text(&job.stragglers.episodes[0], text, sizeof(text));
	cr_expect(strstr(text, "rank 1 on node b is a straggler"), "%s", text);
	struct peer_straggler whole = late(0, 100);
	whole.whole = true;
	hear(whole);
	cr_expect(!is_late(0) && is_late(1));
	straggler_text(&job.stragglers.episodes[1], text, sizeof(text));
	cr_expect(strstr(text, "node b is a straggler"), "%s", text);
	cr_expect_null(straggler_watch_here(&job));
	whole.node = 0;
	hear(whole);
	cr_expect(!is_late(1) && is_late(2));
	cr_expect_eq(straggler_watch_here(&job), &job.stragglers.episodes[2]);
	cr_expect_eq(straggler_watch_late(&job.stragglers), 1u);
}

Test(straggler_watch, ranks_here_have_how_they_compare)
{
	const struct straggler_rank *is = job.stragglers.ranks;
	train(1);
	straggler_watch_hear(
		&job, &(struct peer_stragglers){
			      .epoch = 2, .nown = 2, .own = {{4, true, 900000, 1800, 300000}, {9, false, 1, 1, 1}}});
	cr_assert(is[1].compared && is[1].late && !is[0].compared && !is[2].compared);
	cr_expect_float_eq(is[1].own, 0.9, 1e-9);
	cr_expect_float_eq(is[1].ratio, 1.8, 1e-9);
	cr_expect_float_eq(is[1].cost, 0.3, 1e-9);
	hear_of_nobody();
	cr_expect_not(is[1].compared);
}

Test(straggler_watch, what_is_of_another_epoch_or_of_nobody_changes_nothing)
{
	static struct roster roster;
	hear(late(4, 100));
	cr_expect_eq(job.stragglers.nepisodes, 0u, "nothing was told yet in this epoch");
	train(1);
	straggler_watch_hear(&job, &(struct peer_stragglers){.epoch = 1, .n = 1, .of = {late(4, 100)}});
	hear(late(6, 100));
	cr_expect_eq(job.stragglers.nepisodes, 0u, "the job has six ranks");
	spread_out(&roster);
	struct peer_straggler is = late(4, 100);
	is.node = 2;
	hear(is);
	cr_expect_eq(job.stragglers.nepisodes, 0u, "it has two nodes");
	hear(late(4, 100));
	cr_expect_eq(job.stragglers.nepisodes, 1u);
}

Test(straggler_watch, an_epoch_a_lost_rank_and_another_coordinator_end_it)
{
	const struct straggler_watch *w = &job.stragglers;
	train(1);
	hear(late(4, 100));
	cr_assert(is_late(0));
	job.epoch = 3;
	train(1);
	cr_assert_not(is_late(0));
	train(1);
	hear(late(4, 100));
	cr_assert(is_late(1));
	ranks[0].state = RANK_ABSENT;
	train(1);
	cr_assert_not(is_late(1));
	hear(late(4, 100));
	cr_assert_eq(w->nepisodes, 2u, "what is heard afterwards is of before");
	ranks[0].state = RANK_JOINED;
	train(1);
	hear(late(4, 100));
	cr_assert(is_late(2));
	straggler_watch_anew(&job);
	cr_assert_not(is_late(2));
	cr_expect_not(w->ranks[1].compared);
}

Test(straggler_watch, the_oldest_episodes_make_room)
{
	const struct straggler_watch *w = &job.stragglers;
	job.world = 3 * STRAGGLER_EPISODES;
	train(1);
	for (uint32_t r = 0; r < STRAGGLER_EPISODES + 3; r++)
		hear(late(r, 100));
	cr_assert_eq(w->nepisodes, (uint32_t)STRAGGLER_EPISODES);
	for (uint32_t i = 0; i < STRAGGLER_EPISODES; i++) {
		cr_expect_eq(w->episodes[i].rank, i + 3);
		cr_expect_eq(!w->episodes[i].until_wall_ns, i + 1 == STRAGGLER_EPISODES, "the newest goes on");
	}
}

Test(straggler_watch, as_many_as_are_told_have_room_and_give_it_to_others)
{
	const struct straggler_watch *w = &job.stragglers;
	struct peer_stragglers m = {.epoch = 2, .n = PEER_STRAGGLERS_MAX};
	job.world = 3 * STRAGGLER_EPISODES;
	train(1);
	for (uint32_t i = 0; i < m.n; i++)
		m.of[i] = late(i, 100);
	straggler_watch_hear(&job, &m);
	straggler_watch_hear(&job, &m);
	cr_assert_eq(straggler_watch_late(w), (uint32_t)PEER_STRAGGLERS_MAX);
	for (uint32_t i = 0; i < m.n; i++)
		m.of[i].rank += 8;
	straggler_watch_hear(&job, &m);
	cr_assert_eq(straggler_watch_late(w), (uint32_t)PEER_STRAGGLERS_MAX);
	for (uint32_t i = 0; i < m.n; i++)
		cr_expect_eq(w->episodes[i].rank, i + 8);
}
