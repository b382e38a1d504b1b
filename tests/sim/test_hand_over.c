/* Whole daemons whose coordinator is elected, when the way between the coordinator and one node is cut, in one direction or both: as long as a third
 * node reaches both, the job goes on in its epoch, and that node coordinates it. If none does, the node is lost, as it was always. And a node that lies
 * about whom it reaches takes a job from nobody who was not looking for a successor, and from nobody more often than once in peer-timeout.
 *
 * Usage: sim_hand_over [FIRST [COUNT]]; CKPT_NIGHTLY=1 runs more. CKPT_SIM_TRACE=1 tells what happens, CKPT_LOG=debug what daemons say of it. */
#include "base/clock.h"
#include "base/log.h"
#include "control/election/election.h"
#include "control/election/hand_over.h"
#include "control/election/reach.h"
#include "fleet.h"
#include "format/message/peer_reach.h"
#include "net_sim.h"
#include "participant/room.h"
#include "registry_sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 12, SEEDS_NIGHTLY = 500, NODES = 3 };
#define SOON_NS (100 * CLOCK_NS_PER_MS)
#define DELAY_NS (20 * CLOCK_NS_PER_MS) /* of the registry */
#define LONG_NS (5 * CLOCK_NS_PER_S)
#define PEER_TIMEOUT_NS (400 * CLOCK_NS_PER_MS)

static uint64_t handed_over; /* in all runs */

struct start {
	struct fleet_node *coordinator, *other;
	uint64_t term, step;
	uint32_t epoch;
};

static unsigned long hand_overs(void)
{
	unsigned long n = 0;
	struct election_view v;
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.nodes[i].up && election_look(&fleet.nodes[i].daemon.control, &v))
			n += v.hand_overs;
	return n;
}

static void go_on(uint64_t ns)
{
	uint64_t until = clock_deadline(ns);
	while (clock_now() < until)
		fleet_go_on(1);
}

/* All nodes have ranks, and train. */
static struct start begin(uint64_t seed, unsigned nodes)
{
	sim_context(seed, 0);
	world_reset(seed);
	fleet_begin(nodes, true, "[job]\nverify = no\n");
	fleet.registry = true;
	fleet.asks = true;
	fleet.copies = 1;
	for (unsigned i = 0; i < nodes; i++) {
		fleet.ranks[i].home = i;
		fleet.ranks[i].used = true;
		fleet.nodes[i].nranks = 1;
	}
	fleet.world = fleet.nprocesses = nodes;
	for (unsigned i = 0; i < nodes; i++)
		fleet_start(&fleet.nodes[i]);
	fleet_park(seed);
	fleet_mend();
	registry_sim_faults(&(struct registry_faults){.delay_ns = DELAY_NS});
	fleet_settle("the start");
	go_on(LONG_NS); /* nobody is new any more */
	struct start s = {.coordinator = fleet_coordinator(), .term = fleet_term(), .epoch = fleet.told};
	SIM_CHECK(s.coordinator, "nobody coordinates");
	s.other = &fleet.nodes[(s.coordinator->id + 1 + seed % (nodes - 1)) % nodes];
	s.step = fleet.last_step;
	return s;
}

static void end(void)
{
	handed_over += hand_overs();
	fleet_mend();
	fleet_settle("the cut");
	fleet_finish();
	fleet_check_store();
	fleet_end();
	world_end();
}

static void cut(const struct fleet_node *a, const struct fleet_node *b, unsigned ways)
{
	fleet_trace("the ways between node %u and %u are cut: %u", a->id, b->id, ways);
	if (ways & 1)
		net_sim_cut(a->id, b->id, true);
	if (ways & 2)
		net_sim_cut(b->id, a->id, true);
	fleet.cuts++;
	fleet.faults++;
}

/* ways: 1, from the coordinator; 2, to it; 3, both. */
static void cut_off_from_the_coordinator(uint64_t seed, unsigned ways)
{
	struct start s = begin(seed, NODES);
	cut(s.coordinator, s.other, ways);
	go_on(LONG_NS);
	const struct fleet_node *now = fleet_coordinator();
	SIM_CHECK(now && now != s.coordinator && now != s.other,
		  "%s coordinates, where neither of those that are cut off from each other can",
		  now ? now->daemon.runtime.config.node : "nobody");
	SIM_CHECK(hand_overs() == 1, "the job was handed over %lu times", hand_overs());
	SIM_CHECK(fleet_term() > s.term, "the term is not a later one");
	SIM_CHECK(fleet.told == s.epoch, "epoch %u has begun after epoch %u, and nothing was lost", fleet.told,
		  s.epoch);
	SIM_CHECK(fleet.last_step > s.step, "training stands still at step %lu", (unsigned long)fleet.last_step);
	fleet_settle("a cut that lasts");
	SIM_CHECK(fleet.told == s.epoch, "epoch %u has begun after a save", fleet.told);
	end();
}

/* Of two others one is soon cut off from the node, too, and does not know that yet when it is asked. */
static void one_of_the_others_reaches_all(uint64_t seed)
{
	struct start s = begin(seed, NODES + 1);
	struct fleet_node *both[2];
	unsigned n = 0;
	for (unsigned i = 0; i < fleet.n; i++)
		if (&fleet.nodes[i] != s.coordinator && &fleet.nodes[i] != s.other)
			both[n++] = &fleet.nodes[i];
	cut(s.coordinator, s.other, 3);
	go_on(PEER_TIMEOUT_NS / 2);
	cut(both[seed % 2], s.other, 3);
	go_on(LONG_NS);
	SIM_CHECK(fleet_coordinator() == both[!(seed % 2)],
		  "another one coordinates than the only one that reaches all");
	SIM_CHECK(fleet.told == s.epoch, "epoch %u has begun, and nothing was lost", fleet.told);
	end();
}

/* A node that nobody reaches is lost. */
static void cut_off_from_all(uint64_t seed)
{
	struct start s = begin(seed, NODES);
	for (unsigned i = 0; i < NODES; i++)
		if (&fleet.nodes[i] != s.other)
			cut(&fleet.nodes[i], s.other, 3);
	go_on(LONG_NS);
	SIM_CHECK(fleet.told > s.epoch, "a node that nobody hears is not lost");
	SIM_CHECK(fleet_coordinator() == s.coordinator && !hand_overs(), "the job was handed over all the same");
	end();
}

/* Two nodes: there is no way over a third one. */
static void cut_off_without_a_third(uint64_t seed)
{
	struct start s = begin(seed, 2);
	cut(s.coordinator, s.other, 3);
	go_on(LONG_NS);
	SIM_CHECK(fleet.told > s.epoch && !hand_overs(), "a node that nobody hears is not lost");
	end();
}

/* ---- a node that lies ------------------------------------------------------------------------------------------------ */

/* It says unasked that it reaches all, under any number. */
static void answers_that_nobody_asked_for(uint64_t seed)
{
	struct start s = begin(seed, NODES);
	for (uint64_t number = 0; number < 100; number++) {
		struct peer_reach lie = {.type = PEER_REACH_ANSWER, .number = number, .all = true};
		(void)reach_send(&s.other->daemon.control, s.coordinator->id, &lie);
		if (number % 10 == 9)
			fleet_go_on(1);
	}
	go_on(LONG_NS);
	SIM_CHECK(fleet_coordinator() == s.coordinator && fleet_term() == s.term,
		  "a coordinator that reaches all was replaced");
	SIM_CHECK(fleet.told == s.epoch, "epoch %u has begun", fleet.told);
	end();
}

/* It joins whoever coordinates, and is silent to it soon after that. Who has just got the job asks nobody. */
static void silent_to_each_coordinator(uint64_t seed)
{
	struct start s = begin(seed, NODES);
	const struct fleet_node *was = NULL;
	uint64_t began = clock_now(), until = clock_deadline(2 * LONG_NS), at = 0;
	while (clock_now() < until) {
		const struct fleet_node *c = fleet_coordinator();
		struct net *net = s.other->daemon.peers.net;
		at = c == was ? at : clock_deadline(SOON_NS);
		was = c;
		for (unsigned i = 0; c && c != s.other && i < NODES; i++)
			net_sim_cut(i, s.other->id, i == c->id && clock_now() >= at);
		if (c && c != s.other && clock_now() >= at && net_is_up(net, c->id))
			net_drop(net, c->id, -ETIMEDOUT);
		fleet.cuts++;
		fleet.faults++;
		fleet_go_on(1);
	}
	uint64_t most = 1 + (clock_now() - began) / PEER_TIMEOUT_NS;
	SIM_CHECK(hand_overs() && hand_overs() <= most, "the job was handed over %lu times, and %lu would be most",
		  hand_overs(), (unsigned long)most);
	end();
}

int main(int argc, char **argv)
{
	const char *nightly = getenv("CKPT_NIGHTLY");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : nightly && *nightly == '1' ? SEEDS_NIGHTLY : SEEDS;
	log_init("sim");
	if (!getenv("CKPT_LOG"))
		log_set_level(LOG_ERROR);
	for (uint64_t seed = first; seed < first + count; seed++) {
		for (unsigned ways = 1; ways <= 3; ways++)
			cut_off_from_the_coordinator(seed, ways);
		one_of_the_others_reaches_all(seed);
		cut_off_from_all(seed);
		cut_off_without_a_third(seed);
		answers_that_nobody_asked_for(seed);
		silent_to_each_coordinator(seed);
	}
	printf("%" PRIu64 " seeds from %" PRIu64 ": jobs were handed over %" PRIu64 " times\n", count, first,
	       handed_over);
	return !handed_over;
}
