/* Jobs whose world changes: how they begin, and what happens to their nodes and launchers. */
#include "base/clock.h"
#include "control/membership/membership.h"
#include "fleet.h"
#include "net_sim.h"

#include <errno.h>

/* Each node with equally many processes, as `ckpt run --nodes` has it; what is not needed for all of them waits as a spare. */
void elastic_place(void)
{
	unsigned nodes = 3 + (unsigned)rng_below(world_rng(), FLEET_NODES_MAX - 2);
	unsigned spares = rng_chance(world_rng(), 35) ? 1 : 0;
	uint32_t each = 1 + (uint32_t)rng_below(world_rng(), 2);
	bool stored = rng_chance(world_rng(), 60);
	fleet_begin(nodes, stored, rng_chance(world_rng(), 70) ? "[job]\nverify = no\n" : "");
	fleet.elastic = true;
	fleet.nprocesses = FLEET_PROCESSES_MAX;
	fleet.copies = rng_chance(world_rng(), 85) || !stored;
	fleet.slots += (uint32_t)rng_below(world_rng(), 2);
	fleet.pace_ns = (20 + rng_below(world_rng(), 150)) * CLOCK_NS_PER_MS;
	fleet.node_wait_ms = 100 + (uint32_t)rng_below(world_rng(), 900);
	fleet.want = (nodes - spares) * each;
	fleet.least = 1 + (uint32_t)rng_below(world_rng(), fleet.want);
	for (unsigned i = 0; i < nodes; i++)
		launcher_begin(&fleet.nodes[i], each, spares && i == nodes - 1);
	for (unsigned i = 0; i < nodes; i++)
		fleet.nodes[i].processes = each;
}

/* For good, or until somebody brings it back. The one that coordinates the job is started again in any case. */
void elastic_lost(struct fleet_node *n)
{
	n->away = n->id != 0 || rng_chance(world_rng(), 50) || fleet.registry;
}

void elastic_begin_again(struct fleet_node *n)
{
	launcher_begin(n, n->processes, n->id == fleet.n - 1 && fleet.want < fleet.n * n->processes);
}

static void come_back(struct fleet_node *n)
{
	n->away = false;
	if (!n->up)
		fleet_start(n);
	if (!n->assignment.runs)
		elastic_begin_again(n);
	fleet_sum.returns++;
}

/* Enough would be left, also for a while. */
static bool may_go(const struct fleet_node *n)
{
	return n->assignment.runs && !n->assignment.leaving && launcher_without(n) >= fleet.least;
}

static bool drains(struct fleet_node *n)
{
	int rc = drain_ask(n, true);
	return !rc || rc == -EINPROGRESS;
}

static void leave(struct fleet_node *n)
{
	launcher_leave(n);
	fleet_sum.leaves++;
}

bool elastic_event(struct fleet_node *n)
{
	uint64_t what = rng_below(world_rng(), 1000);
	bool away = n->away || !n->assignment.runs;
	if (what < 20 && away)
		come_back(n);
	else if (what < 2 && may_go(n) && n->launcher)
		leave(n);
	else if (what >= 2 && what < 4 && may_go(n))
		drain_ask_and_lose(n, true);
	else if (what >= 4 && what < 8)
		drain_ask_and_lose(n, false);
	else if (what == 8 && n->assignment.runs) {
		launcher_kill(n);
		fleet_sum.launchers++;
	} else
		return false;
	return true;
}

static bool has_untold_plan(const struct fleet_node *n)
{
	const struct membership *at = NULL;
	struct membership_view view;
	return n && n->up && membership_next(&n->daemon.control, &at, &view) && view.untold;
}

static void begin_to_die(struct fleet_node *n)
{
	fleet.dying = n;
	fleet.dying_life = n->life;
	fleet.last_words = (unsigned)rng_below(world_rng(), fleet.n);
	net_sim_last_words(n->number, PEER_PLAN, fleet.last_words);
}

static void die(void)
{
	struct fleet_node *n = fleet.dying;
	fleet.dying = NULL;
	if (!n || !n->up || n->life != fleet.dying_life)
		return;
	bool told = net_sim_is_silent(n->number) && fleet.last_words;
	fleet_trace("node %u has planned, and its daemon dies%s", n->id, told ? " while it tells the others" : "");
	*(told ? &fleet_sum.half_told : &fleet_sum.untold) += 1;
	fleet_kill_daemon(n);
}

bool elastic_interrupt(void)
{
	struct fleet_node *n = fleet.dying;
	if (!n) {
		n = fleet_coordinator();
		if (has_untold_plan(n) && rng_chance(world_rng(), 3))
			begin_to_die(n);
		return false;
	}
	if (n->life == fleet.dying_life && has_untold_plan(n) && !rng_chance(world_rng(), 1))
		return false;
	die();
	return true;
}

void elastic_turn(struct fleet_node *n)
{
	n->undrain = n->undrain && !n->assignment.leaving && drain_ask(n, false) != 0;
}

/* As many nodes are there as the job needs; some of the others stay away. */
void elastic_mend(void)
{
	die();
	for (unsigned i = 0; i < fleet.n; i++) {
		struct fleet_node *n = &fleet.nodes[i];
		n->undrain = true;
		elastic_turn(n);
		if ((n->away || !n->assignment.runs) &&
		    ((!i && !fleet.registry) || launcher_without(NULL) < fleet.least || rng_chance(world_rng(), 40)))
			come_back(n);
	}
	for (unsigned i = 0; i < fleet.n && launcher_without(NULL) < fleet.least; i++)
		if (fleet.nodes[i].away || !fleet.nodes[i].assignment.runs)
			come_back(&fleet.nodes[i]);
}

/* One thing happens when all is well. */
static void trial(void)
{
	struct fleet_node *n = &fleet.nodes[rng_below(world_rng(), fleet.n)];
	bool away = n->away || !n->assignment.runs;
	const char *what = "the return of a node";
	fleet_go_on(rng_below(world_rng(), 100)); /* something newer may be in memory only */
	if (away) {
		come_back(n);
	} else if (!may_go(n)) {
		return;
	} else if (rng_chance(world_rng(), 40) && n->id) {
		fleet_lose(n);
		elastic_lost(n);
		what = "the loss of a node";
	} else if (rng_chance(world_rng(), 50)) {
		leave(n);
		what = "SIGTERM to a launcher";
	} else if (drains(n)) {
		n->undrain = false;
		what = "the drain of a node";
	}
	fleet_trace("trial: %s", what);
	fleet_settle(what);
	fleet_sum.trials++;
}

void elastic_trials(void)
{
	for (int i = 0; i < 2 && !fleet.stopped; i++)
		trial();
}
