#include "muster.h"

#include "base/clock.h"
#include "config/file.h"
#include "config/sources.h"
#include "fakes.h"
#include "loop.h"
#include "roster.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 4, EACH = 2, WANT = 6, LEAST = 2, WAIT_S = 10 };

static struct daemon daemon;

/* What a node has been told, and follows once it has said so. */
static struct follower {
	struct wire_plan plan;
	bool told_plan, settle, stop, pause;
	uint64_t after; /* PAUSE */
	int away;
	char text[WIRE_TEXT_MAX];
} nodes[NODES];

static void setup(void)
{
	static const char roster[] = "n0 10.0.0.1:1\nn1 10.0.0.2:1\nn2 10.0.0.3:1\nn3 10.0.0.4:1\n";
	static const char policies[] = "[job]\nnode-wait = 10s\n";
	struct err err = {{0}};
	fakes_reset();
	memset(nodes, 0, sizeof(nodes));
	daemon = (struct daemon){.root = -1};
	cr_assert_eq(sources_new(&daemon.sources, &err), 0, "%s", err.text);
	cr_assert_eq(file_parse(daemon.sources, "test", policies, strlen(policies), &err), 0, "%s", err.text);
	cr_assert_eq(loop_new(&daemon.loop, &err), 0, "%s", err.text);
	cr_assert_eq(roster_parse("test", roster, strlen(roster), &daemon.roster, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	musters_free(&daemon);
	roster_free(daemon.roster);
	loop_free(daemon.loop);
	sources_free(daemon.sources);
}

TestSuite(muster, .init = setup, .fini = teardown);

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

static void read_orders(void)
{
	for (unsigned i = 0; i < fake_chair.norders; i++) {
		const struct peer_order *o = &fake_chair.orders[i].order;
		struct follower *f = &nodes[fake_chair.orders[i].node];
		if (o->type == PEER_PLAN) {
			f->plan = o->plan;
			f->told_plan = true;
		}
		f->settle |= o->type == PEER_SETTLE;
		f->stop |= o->type == PEER_STOP;
		if (o->type == PEER_PAUSE) {
			f->pause = true;
			f->after = o->step;
		}
		if (o->type != PEER_TURN_AWAY)
			continue;
		f->away = o->word.rc;
		snprintf(f->text, sizeof(f->text), "%s", o->word.text);
	}
	fake_chair.norders = 0;
}

static void report(uint32_t node, const struct peer_crew *crew)
{
	struct peer_report r = {.type = PEER_CREW, .job = "gpt", .crew = *crew};
	muster_report(&daemon, node, true, &r);
	read_orders();
}

/* As a node that follows what it was told last, and has so many processes. */
static struct peer_crew crew_of(uint32_t node, uint32_t processes)
{
	const struct wire_plan *plan = &nodes[node].plan;
	struct peer_crew m = {.want = WANT,
			      .least = LEAST,
			      .processes = processes,
			      .plan = plan->number,
			      .world = plan->n ? plan->world : 0,
			      .n = plan->n < processes ? plan->n : processes};
	memcpy(m.ranks, plan->ranks, m.n * sizeof(m.ranks[0]));
	return m;
}

static void offer(uint32_t node, uint32_t processes)
{
	struct peer_crew m = crew_of(node, processes);
	report(node, &m);
}

static void offer_spare(uint32_t node)
{
	struct peer_crew m = crew_of(node, EACH);
	m.spare = true;
	report(node, &m);
}

static void tick(void)
{
	musters_tick(&daemon);
	read_orders();
}

/* All who were told of a plan say that they follow it. */
static void follow(void)
{
	for (uint32_t n = 0; n < NODES; n++) {
		if (!nodes[n].told_plan)
			continue;
		nodes[n].told_plan = false;
		offer(n, EACH);
	}
}

static void begin(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		offer(i, EACH);
	follow();
}

static void lose(uint32_t node)
{
	musters_node_down(&daemon, node);
	fake_chair.view.attending -= EACH;
	nodes[node] = (struct follower){0};
	tick();
}

static void settled(uint32_t node, int rc)
{
	struct peer_report r = {
		.type = PEER_SETTLED, .job = "gpt", .settled = {.plan = muster_plan(&daemon, "gpt"), .rc = rc}};
	snprintf(r.settled.text, sizeof(r.settled.text), "the disk is full");
	nodes[node].settle = false;
	muster_report(&daemon, node, true, &r);
	read_orders();
}

static void expect_ranks(uint32_t node, uint32_t number, uint32_t world, uint32_t n, const uint32_t *ranks)
{
	const struct wire_plan *plan = &nodes[node].plan;
	cr_assert(plan->number == number && plan->world == world && plan->n == n, "node %u: plan %u, %u of %u ranks",
		  node, plan->number, plan->n, plan->world);
	for (uint32_t i = 0; i < n; i++)
		cr_expect_eq(plan->ranks[i], ranks[i], "node %u: rank %u", node, plan->ranks[i]);
}

#define EXPECT_RANKS(node, number, world, ...)                                                                         \
	expect_ranks(node, number, world, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                        \
		     (uint32_t[]){__VA_ARGS__})

static void shown(uint64_t step, uint32_t epoch, enum level_shown level)
{
	muster_shown(&daemon, "gpt", (struct step_id){step, epoch}, level);
	tick();
}

/* The node's ranks wait in the next fence; they have begun saves up to this one. */
static void paused(uint32_t node, uint64_t step)
{
	struct peer_report r = {.type = PEER_PAUSED, .job = "gpt", .epoch = fake_chair.view.epoch, .step = step};
	nodes[node].pause = false;
	muster_report(&daemon, node, true, &r);
	read_orders();
}

/* All have entered, and a save comes in whose fence all of them wait, if they were asked to. */
static void occasion(void)
{
	fake_chair.view.entered = fake_chair.view.epoch;
	tick();
	for (uint32_t n = 0; n < NODES; n++)
		if (nodes[n].pause)
			paused(n, 10);
	shown(11, fake_chair.view.epoch, LEVEL_REPLICATED);
}

/* ---- the first plan --------------------------------------------------------------------------------------------- */

Test(muster, the_first_plan_is_made_when_all_are_there)
{
	offer(0, EACH);
	offer(1, EACH);
	tick();
	cr_expect_eq(muster_plan(&daemon, "gpt"), 0);
	cr_expect_eq(fake_chair.remakes, 0);
	offer(2, EACH);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 1);
	cr_expect(fake_chair.remakes == 1 && fake_chair.view.world == WANT);
	EXPECT_RANKS(0, 1, 6, 0, 1);
	EXPECT_RANKS(1, 1, 6, 2, 3);
	EXPECT_RANKS(2, 1, 6, 4, 5);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect_eq(nodes[n].plan.was[0], WIRE_NEW_PROCESS);
}

Test(muster, who_is_missing_is_waited_for_until_the_deadline)
{
	offer(0, EACH);
	offer(1, EACH);
	clock_skip((WAIT_S - 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(muster_plan(&daemon, "gpt"), 0);
	clock_skip(2 * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(muster_plan(&daemon, "gpt"), 1);
	EXPECT_RANKS(1, 1, 4, 2, 3);
}

Test(muster, with_fewer_than_the_job_needs_it_goes_on_waiting)
{
	offer(0, LEAST - 1);
	clock_skip(100 * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(muster_plan(&daemon, "gpt"), 0);
	offer(1, LEAST - 1);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 1, "its time is over");
}

Test(muster, who_wants_another_job_is_turned_away)
{
	offer(0, EACH);
	struct peer_crew m = crew_of(1, EACH);
	m.least = WANT;
	report(1, &m);
	cr_expect_eq(nodes[1].away, -EINVAL);
	cr_expect_str_eq(nodes[1].text, "node n1 offers itself to a job of 6 to 6 ranks, the others to one of 2 to 6");
	offer(1, EACH);
	offer(2, EACH);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 1, "it may think better of it");
}

Test(muster, a_job_of_that_name_on_one_node_is_another_one)
{
	begin(3);
	struct peer_report r = {.type = PEER_CREW, .job = "gpt", .crew = {.want = 1, .least = 1, .processes = 1}};
	muster_report(&daemon, 0, false, &r);
	cr_expect_eq(fake_chair.norders, 0);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 1);
}

Test(muster, a_store_that_refuses_ends_it_for_all)
{
	fake_chair.remake_rc = -EIO;
	begin(3);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect(nodes[n].away == -EIO && strstr(nodes[n].text, "the store says no"), "%s", nodes[n].text);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 0);
	cr_expect_null(daemon.musters);
}

/* ---- losses ----------------------------------------------------------------------------------------------------- */

Test(muster, a_spare_takes_the_place_of_a_lost_node_at_once)
{
	offer_spare(3);
	begin(3);
	cr_expect_eq(nodes[3].plan.n, 0);
	lose(1);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 2);
	cr_expect(!fake_chair.holds && fake_chair.releases == 1 && fake_chair.remakes == 1, "the world stays as it is");
	EXPECT_RANKS(0, 2, 6, 0, 1);
	EXPECT_RANKS(3, 2, 6, 2, 3);
	cr_expect(nodes[0].plan.was[0] == 0 && nodes[2].plan.was[1] == 5, "they go on");
	cr_expect_eq(nodes[3].plan.was[0], WIRE_NEW_PROCESS);
}

static void expect_shrunk(void)
{
	cr_expect_eq(muster_plan(&daemon, "gpt"), 2);
	cr_expect(fake_chair.remakes == 2 && fake_chair.view.world == 4);
	EXPECT_RANKS(0, 2, 4, 0, 1);
	EXPECT_RANKS(2, 2, 4, 2, 3);
	cr_expect(nodes[2].plan.was[0] == 4 && nodes[2].plan.was[1] == 5, "the highest ranks go into the gaps");
}

Test(muster, without_one_the_world_shrinks_when_all_have_settled)
{
	begin(3);
	lose(1);
	cr_expect_eq(fake_chair.holds, 0, "it may come back");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_chair.held && nodes[0].settle && nodes[2].settle && !nodes[1].settle);
	settled(0, 0);
	tick();
	cr_expect_eq(muster_plan(&daemon, "gpt"), 1);
	settled(2, 0);
	expect_shrunk();
}

Test(muster, directories_that_are_being_cleared_away_are_waited_for)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	fake_chair.busy = true;
	settled(0, 0);
	settled(2, 0);
	tick();
	cr_expect_eq(muster_plan(&daemon, "gpt"), 1);
	fake_chair.busy = false;
	tick();
	expect_shrunk();
}

Test(muster, who_is_lost_while_it_settles_is_not_waited_for)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	settled(0, 0);
	lose(2);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 2);
	EXPECT_RANKS(0, 2, 2, 0, 1);
}

Test(muster, who_comes_back_before_the_deadline_makes_it_whole_again)
{
	begin(3);
	lose(1);
	offer(1, EACH);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 2);
	cr_expect_eq(fake_chair.holds, 0);
	EXPECT_RANKS(1, 2, 6, 2, 3);
}

Test(muster, who_comes_back_while_it_settles_keeps_the_world)
{
	begin(3);
	struct follower was = nodes[1];
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	nodes[1] = was; /* its processes live: only its session was lost */
	offer(1, EACH);
	settled(0, 0);
	settled(2, 0);
	tick();
	cr_expect(!fake_chair.held && fake_chair.remakes == 1);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 1, "nobody is anybody else");
}

Test(muster, too_few_are_waited_for_without_an_end)
{
	begin(3);
	lose(1);
	lose(2);
	offer(0, 1);
	clock_skip(100 * CLOCK_NS_PER_S);
	tick();
	cr_expect(!fake_chair.holds && muster_plan(&daemon, "gpt") == 1);
	offer(2, 1);
	tick();
	cr_expect(fake_chair.held, "now it can go on");
}

Test(muster, what_was_settled_for_another_plan_is_not_heard)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	struct peer_report r = {.type = PEER_SETTLED, .job = "gpt", .settled.plan = 0};
	muster_report(&daemon, 0, true, &r);
	muster_report(&daemon, 2, true, &r);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 1);
}

/* ---- growth ----------------------------------------------------------------------------------------------------- */

static void shrink(void)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	settled(0, 0);
	settled(2, 0);
	follow();
}

Test(muster, a_node_that_comes_back_makes_it_grow_when_a_save_is_safe)
{
	shrink();
	offer(1, EACH);
	tick();
	cr_expect(!nodes[0].pause, "nobody has entered the new world");
	fake_chair.view.entered = fake_chair.view.epoch;
	tick();
	cr_expect(nodes[0].pause && nodes[2].pause && !nodes[1].pause);
	paused(0, 7);
	shown(8, fake_chair.view.epoch, LEVEL_REPLICATED);
	cr_expect_eq(fake_chair.holds, 1, "not all have said what they have begun");
	paused(2, 9);
	cr_expect(nodes[0].after == 9 && nodes[2].after == 9);
	shown(9, fake_chair.view.epoch, LEVEL_REPLICATED);
	cr_expect_eq(fake_chair.holds, 1, "in its fence somebody did not wait");
	shown(10, fake_chair.view.epoch - 1, LEVEL_REPLICATED);
	cr_expect_eq(fake_chair.holds, 1, "a save of another epoch");
	shown(10, fake_chair.view.epoch, LEVEL_CAPTURED);
	cr_expect_eq(fake_chair.holds, 1, "without a store it is not safe yet");
	shown(10, fake_chair.view.epoch, LEVEL_REPLICATED);
	cr_expect(fake_chair.holds == 2 && nodes[0].settle && nodes[2].settle);
	settled(0, 0);
	settled(2, 0);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 3);
	EXPECT_RANKS(1, 3, 6, 4, 5);
}

Test(muster, what_cannot_be_written_keeps_the_world_as_it_is)
{
	shrink();
	offer(1, EACH);
	occasion();
	settled(0, -ENOSPC);
	settled(2, 0);
	cr_expect(!fake_chair.held && muster_plan(&daemon, "gpt") == 2);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(nodes[n].away, 0, "they go on");
	occasion();
	cr_expect(fake_chair.held, "another occasion, another try");
}

Test(muster, who_need_not_wait_any_more_is_told_so)
{
	shrink();
	offer(1, EACH);
	fake_chair.view.entered = fake_chair.view.epoch;
	tick();
	paused(0, 7);
	offer(1, 0);
	cr_expect(nodes[0].after == UINT64_MAX && nodes[2].after == UINT64_MAX);
	paused(2, 7);
	shown(8, fake_chair.view.epoch, LEVEL_REPLICATED);
	cr_expect_eq(fake_chair.holds, 1);
}

/* ---- restarts --------------------------------------------------------------------------------------------------- */

static struct peer_crew said(uint32_t plan, uint32_t first)
{
	return (struct peer_crew){.want = WANT,
				  .least = LEAST,
				  .processes = EACH,
				  .plan = plan,
				  .world = 4,
				  .n = EACH,
				  .ranks = {first, first + 1}};
}

Test(muster, a_restarted_coordinator_goes_on_with_the_plan_that_nodes_follow)
{
	struct peer_crew a = said(7, 0), b = said(7, 2);
	report(0, &a);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 7);
	cr_expect(fake_chair.remakes == 1 && fake_chair.view.world == 4);
	tick();
	cr_expect_eq(muster_plan(&daemon, "gpt"), 7, "the others have their time to come");
	report(2, &b);
	clock_skip(100 * CLOCK_NS_PER_S);
	tick();
	cr_expect(muster_plan(&daemon, "gpt") == 7 && !fake_chair.holds && !nodes[0].told_plan && !nodes[2].told_plan);
}

/* What the first has of a plan that is over means nothing now: it is given what nobody has claimed. */
Test(muster, the_latest_plan_that_anybody_follows_holds)
{
	struct peer_crew old = said(6, 2), new = said(7, 2);
	report(0, &old);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 6);
	report(2, &new);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 8);
	EXPECT_RANKS(0, 8, 4, 0, 1);
	cr_expect_eq(nodes[0].plan.was[0], WIRE_NEW_PROCESS);
	EXPECT_RANKS(2, 8, 4, 2, 3);
	cr_expect_eq(nodes[2].plan.was[0], 2);
}

Test(muster, a_node_that_missed_a_plan_is_told_it_and_who_its_processes_were)
{
	shrink();
	occasion();
	struct peer_crew old = crew_of(2, EACH);
	old.plan = 1;
	old.ranks[0] = 4;
	old.ranks[1] = 5;
	nodes[2].told_plan = false;
	report(2, &old);
	cr_assert(nodes[2].told_plan);
	EXPECT_RANKS(2, 2, 4, 2, 3);
	cr_expect_eq(nodes[2].plan.was[0], 4);
	old.plan = 0;
	report(2, &old);
	cr_expect_eq(nodes[2].plan.was[0], WIRE_NEW_PROCESS, "one that has missed two knows none of them");
}

Test(muster, it_ends_when_nobody_is_left)
{
	begin(3);
	for (uint32_t n = 0; n < 3; n++)
		offer(n, 0);
	tick();
	cr_expect_not_null(daemon.musters, "a launcher may be started again");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	fake_chair.has = false;
	tick();
	cr_expect_null(daemon.musters);
}

/* ---- the end of ranks ------------------------------------------------------------------------------------------- */

Test(muster, ranks_that_have_finished_are_not_asked_to_settle)
{
	begin(3);
	cr_expect(muster_left(&daemon, "gpt", 0), "others are at work");
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(!nodes[0].settle && nodes[2].settle);
	cr_expect(!muster_left(&daemon, "gpt", 2), "it was the last");
	cr_expect(!muster_left(&daemon, "bert", 0));
}

Test(muster, who_has_finished_has_no_processes_for_another_epoch)
{
	begin(3);
	muster_left(&daemon, "gpt", 0);
	tick();
	cr_expect_eq(fake_chair.holds, 0);
	fake_chair.view.epoch++;
	tick();
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_chair.held, "its ranks are missing");
}

/* ---- drain ------------------------------------------------------------------------------------------------------ */

static int drain(const char *job, const char *node, bool drained, struct err *err)
{
	const char *is;
	int rc = muster_drain(&daemon, job, node, drained, &is, err);
	read_orders();
	return rc;
}

Test(muster, a_node_is_drained_when_a_save_is_safe_and_may_come_back)
{
	struct err err;
	begin(3);
	cr_assert_eq(drain("", "n1", true, &err), 0);
	tick();
	cr_expect_eq(fake_chair.holds, 0);
	occasion();
	for (uint32_t n = 0; n < 3; n++)
		settled(n, 0);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 2);
	cr_expect_eq(nodes[1].plan.n, 0);
	follow();
	occasion();
	cr_expect_eq(fake_chair.holds, 1, "it is not wanted back");
	cr_assert_eq(drain("gpt", "n1", false, &err), 0);
	occasion();
	for (uint32_t n = 0; n < 3; n++)
		settled(n, 0);
	cr_expect_eq(muster_plan(&daemon, "gpt"), 3);
	cr_expect_eq(nodes[1].plan.n, EACH);
}

Test(muster, what_cannot_be_drained_is_refused)
{
	struct err err;
	cr_expect_eq(drain("", "n1", true, &err), -ENOENT);
	cr_expect(strstr(err.text, "no job is planned here"), "%s", err.text);
	begin(3);
	cr_expect_eq(drain("bert", "n1", true, &err), -ENOENT);
	cr_expect_eq(drain("", "n9", true, &err), -ENOENT);
	cr_expect_str_eq(err.text, "job 'gpt' has no node n9");
	cr_expect_eq(drain("", "n1", true, &err), 0);
	cr_expect_eq(drain("", "n2", true, &err), 0);
	cr_expect_eq(drain("", "n0", true, &err), -EBUSY);
	cr_expect_str_eq(err.text, "without node n0 job 'gpt' would have 0 ranks, and it needs 2");
	struct peer_report r = {.type = PEER_CREW, .job = "bert", .crew = {.want = 2, .least = 1, .processes = 1}};
	muster_report(&daemon, 3, true, &r);
	cr_expect_eq(drain("", "n1", true, &err), -EINVAL, "which job?");
}

Test(muster, a_launcher_that_leaves_too_few_ends_the_job)
{
	shrink();
	for (uint32_t n = 0; n <= 2; n += 2) {
		struct peer_crew m = crew_of(n, EACH);
		m.leaving = true;
		report(n, &m);
	}
	tick();
	cr_expect(nodes[0].stop && nodes[2].stop && !nodes[1].stop);
	nodes[0].stop = false;
	tick();
	cr_expect(!nodes[0].stop, "it is asked once");
}
