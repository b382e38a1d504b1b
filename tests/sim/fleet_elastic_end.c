/* The end of an elastic job: its ranks finish, and each launcher ends with the last of its own. A launcher without ranks waits until it hears that the job has ended. Nobody
 * begins it anew, although the coordinator's daemon may die when that is on record, before it has told any node of it, or when it has told some. Then the next job of that
 * name begins. */
#include "base/clock.h"
#include "control/host/coordinator_host.h"
#include "control/membership/membership.h"
#include "fleet.h"
#include "net_sim.h"

#include <limits.h>

#define END_NS (60 * CLOCK_NS_PER_S)

static void some_finish(unsigned percent)
{
	fleet_each(r) if (fleet_may_finish(r) && rng_chance(world_rng(), percent)) fleet_finish_rank(r);
}

static bool anybody_at_work(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.nodes[i].assignment.nplaces)
			return true;
	return false;
}

static bool has_ended(struct fleet_node *n)
{
	return !n->assignment.runs && !fleet_job(n) &&
	       (!n->up ||
		(!host_has(&n->daemon.control, FLEET_JOB) && !membership_plan(&n->daemon.control, FLEET_JOB)));
}

static bool all_ended(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (!has_ended(&fleet.nodes[i]))
			return false;
	return true;
}

/* Its last words are those to some of the others. */
static void choose_last(void)
{
	struct fleet_node *n = fleet_coordinator();
	if (!n || !rng_chance(world_rng(), 50))
		return;
	fleet.last = n;
	net_sim_last_words(n->number, PEER_END, (unsigned)rng_below(world_rng(), fleet.n - 1));
}

static void lose_last(void)
{
	if (!fleet.last || !fleet.last->up || !net_sim_is_silent(fleet.last->number))
		return;
	fleet_trace("node %u is about to tell that the job has ended, and its daemon dies", fleet.last->id);
	fleet_kill_daemon(fleet.last);
	fleet.last = NULL;
	fleet_sum.end_untold++;
}

/* Fewer were there who could be told. */
static void spare_last(void)
{
	if (fleet.last && fleet.last->up)
		net_sim_last_words(fleet.last->number, PEER_END, UINT_MAX);
	fleet.last = NULL;
}

/* What only memory had is gone with it. */
static void begin_again(void)
{
	fleet.finishing = fleet.over = false;
	fleet.faults++;
	for (unsigned i = 0; i < fleet.nsaves; i++)
		fleet.saves[i].waived = true;
	for (unsigned i = 0; i < fleet.n; i++)
		if (!fleet.nodes[i].away)
			elastic_begin_again(&fleet.nodes[i]);
	fleet_settle("the end of a job, and the beginning of the next one");
}

/* A rank has finished, and its launcher has ended, at the very moment at which the others were to begin a new epoch, and without it they are too few. That is said,
 * and somebody looks after it. */
static void help(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.nodes[i].up && !fleet.nodes[i].away && !fleet.nodes[i].assignment.runs)
			elastic_begin_again(&fleet.nodes[i]);
}

void elastic_finish(void)
{
	uint64_t until = clock_now() + END_NS, waits = clock_now() + END_NS / 2;
	fleet.finishing = true;
	choose_last();
	while (!all_ended() && clock_now() < until) {
		some_finish(10);
		fleet.over = fleet.over || !anybody_at_work();
		fleet_go_on(1);
		lose_last();
		if (clock_now() < waits || fleet.over)
			continue;
		help();
		waits = UINT64_MAX;
	}
	if (!all_ended())
		fleet_tell();
	SIM_CHECK(all_ended(), "the job has not ended within a minute after all could finish");
	fleet_sum.ends++;
	spare_last();
	begin_again();
}
