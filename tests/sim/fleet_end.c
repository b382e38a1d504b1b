/* The end of a job whose world is fixed: its ranks finish, those of some nodes before those of others. A launcher whose ranks have all finished
 * stays (cli/launcher/launch_stay.c), until its daemon says that nothing is needed of it any more, or is gone. */
#include "base/clock.h"
#include "control/host/coordinator_host.h"
#include "fleet.h"
#include "net_sim.h"
#include "registry_sim.h"

#define END_NS (60 * CLOCK_NS_PER_S)
/* After so long somebody starts the launcher again of a node that was let go too early. */
#define AGAIN_NS (10 * CLOCK_NS_PER_S)

bool fleet_may_finish(const struct fleet_rank *r)
{
	return r->alive && !r->finished && r->rank && r->client && r->joined && r->restored && r->slot < 0 &&
	       !r->registering && !r->joining && !r->restoring;
}

void fleet_finish_rank(struct fleet_rank *r)
{
	struct job *job = fleet_job(&fleet.nodes[r->home]);
	struct rank *rank = r->rank;
	if (client_moved(r->client, &rank) && !rank)
		return; /* the daemon has ended its session: it comes again first */
	fleet_trace("rank %u finishes", r->id);
	job_bye(rank, ++r->seq);
	r->alive = r->joined = r->restored = false;
	r->finished = true;
	r->rank = NULL;
	job_disconnected(job, rank);
	if (fleet.elastic)
		launcher_finished(r);
	else
		job_exited(job, r->id, r->pid, 0);
}

bool fleet_finished(const struct fleet_node *n)
{
	fleet_each(r) if (r->home == n->id && !r->finished) return false;
	return n->nranks;
}

static bool has_ended(struct fleet_node *n)
{
	return n->ended && !fleet_job(n);
}

/* Of nodes that were cut off until they gave up (cut) the coordinator does not know that they have ended, only that none is there. */
static bool all_ended(bool cut)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.nodes[i].nranks && !has_ended(&fleet.nodes[i]))
			return false;
	const struct fleet_node *first = fleet_coordinator();
	return !first || !host_has(&first->daemon.control, FLEET_JOB) ||
	       (cut && !host_view(&first->daemon.control, FLEET_JOB).attending);
}

/* Its ranks are needed by those that are still there; or what they had prepared is, of a save that a node was cut off from. */
static void start_again(struct fleet_node *n)
{
	bool needed = false;
	for (unsigned i = 0; i < fleet.n; i++)
		needed |= fleet.nodes[i].nranks && !has_ended(&fleet.nodes[i]);
	if (!n->ended || !needed || clock_now() - n->ended_ns < AGAIN_NS)
		return;
	fleet_trace("node %u: its launcher is started again", n->id);
	n->ended = false;
	fleet_each(r) if (r->home == n->id) r->finished = false;
	fleet_sum.restarted++;
}

static void some_finish(const struct fleet_node *n, unsigned percent)
{
	fleet_each(r) if ((!n || r->home == n->id) && fleet_may_finish(r) && rng_chance(world_rng(), percent))
		fleet_finish_rank(r);
}

static bool stays(const struct fleet_node *n)
{
	return fleet_finished(n) && !n->ended;
}

/* ---- trials ---------------------------------------------------------------------------------------------------------- */

static struct fleet_node *other_node(const struct fleet_node *n)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.nodes[i].nranks && &fleet.nodes[i] != n)
			return &fleet.nodes[i];
	return NULL;
}

static void lose_rank(const struct fleet_node *n)
{
	fleet_each(r) if (r->home == n->id && r->alive)
	{
		fleet_kill_rank(r);
		return;
	}
}

/* The ranks of a node have finished when one of another node is lost, or the coordinator: all go on together. */
static void try_early(struct fleet_node *n)
{
	struct fleet_node *other = other_node(n);
	uint64_t end = clock_now() + END_NS;
	for (some_finish(n, 100); !fleet_finished(n) && clock_now() < end; some_finish(n, 100))
		fleet_go_on(1);
	fleet_go_on(rng_below(world_rng(), 100));
	SIM_CHECK(stays(n), "the launcher of node %u has ended before the job", n->id);
	struct fleet_node *first = fleet_coordinator();
	if (first && n != first && rng_chance(world_rng(), 30))
		fleet_kill_daemon(first);
	else
		lose_rank(other);
	fleet_settle("a loss when the ranks of a node had finished");
	fleet_sum.early++;
}

/* Ways may be cut meanwhile, and ranks lost; then all must come to the end. */
static void end(void)
{
	bool faults = rng_chance(world_rng(), 50);
	for (unsigned i = 0; i < 400 && !all_ended(faults); i++) {
		unsigned a = (unsigned)rng_below(world_rng(), fleet.n), b = (unsigned)rng_below(world_rng(), fleet.n);
		some_finish(NULL, 3);
		if (faults && a != b && rng_chance(world_rng(), 5))
			fleet_cut(a, b, rng_chance(world_rng(), 50));
		if (faults && rng_chance(world_rng(), 1))
			lose_rank(&fleet.nodes[a]);
		fleet_go_on(1);
	}
	fleet_mend();
	for (uint64_t until = clock_now() + END_NS; !all_ended(faults) && clock_now() < until; fleet_go_on(1)) {
		some_finish(NULL, 20);
		for (unsigned i = 0; i < fleet.n; i++)
			start_again(&fleet.nodes[i]);
	}
	if (!all_ended(faults))
		fleet_tell();
	SIM_CHECK(all_ended(faults), "the job has not ended within a minute after all could finish");
	fleet_sum.ends++;
}

void fleet_finish(void)
{
	struct fleet_node *n = &fleet.nodes[rng_below(world_rng(), fleet.n)];
	if (n->nranks && other_node(n))
		try_early(n);
	end();
}

void fleet_count_world(void)
{
	fleet_sum.called += net_sim_counts()->resumed;
	fleet_sum.elections += registry_sim_counts()->elections;
	fleet_sum.heirs += registry_sim_counts()->heirs;
	fleet_sum.lapses += registry_sim_counts()->lapsed;
	fleet_sum.unanswered += registry_sim_counts()->muted;
	fleet_sum.unrenewed += registry_sim_counts()->unrenewed;
	fleet_sum.late_done += registry_sim_counts()->late;
	fleet_sum.early_ends += registry_sim_counts()->early;
}
