/* Whole daemons on several nodes, which save and restore one job together: job, commit, replica, member, recover and what coordinates them, on
 * a net that delays, loses and is cut, over a store that fails and tears, with ranks and daemons that are killed, daemons that end in good
 * order, and nodes that are lost with their memory, two at once, and while others recover or commit. In each fourth seed the world of the job changes (fleet_launcher.c,
 * fleet_elastic.c): launchers offer processes, some of them as spares; nodes are lost for good, come back, are drained, launchers get SIGTERM
 * or are killed, processes are given up; that is membership, assignment, resize, spill and recut. In each fifth seed the coordinator is elected
 * in a registry that is cut off, loses and delays what is asked of it, and lets leases end, in some seeds sooner than it promised. In half
 * of these the nodes stand in the registry, too: daemons join, one of them anew and late, and machines are replaced by others with another
 * address, and nodes are removed and join anew.
 *
 * What must hold whatever happens, in the words of docs/explanation/invariants.md:
 *  1. Durable. What was shown to a rank as durable is in the store from then on. It is whole, and holds what every rank saved. An epoch
 *     that begins later goes on from there, or from something newer.
 *  2. Replicated. When a snapshot is shown as replicated, every rank's part is on two nodes. From then until something newer is durable,
 *     that snapshot, or a newer captured one, is on two nodes. It is still on one node if one node or daemon was lost since the last rank
 *     had copied it. After the second loss nothing is promised. An epoch that is entered with all nodes connected goes on from there, or
 *     from something newer, unless something fails meanwhile.
 *  3. Restore. All ranks of an epoch restore the same step of the same epoch. Their bytes are what was saved then. All ranks had copied
 *     and fenced it before anybody was told of a later epoch.
 *  4. Epochs. No epoch is entered by two memberships, nor twice by anybody. Each epoch that is entered is higher than all before.
 *  5. Files. Once a directory has the name of a checkpoint, nothing that its MANIFEST.json vouches for is written, made or removed. It
 *     loses that name only when it is removed. Without a registry, only the holder of the job's lock makes, names and removes directories
 *     of checkpoints.
 *  6. Liveness. Without faults, within a minute all ranks train, a save becomes durable, and its copies are held. If the world changes,
 *     it has as many ranks as the nodes that are there can have.
 *  7. The end. A node whose ranks have finished goes on with the others when these need it. When all have finished, nothing is left of
 *     the job within a minute, all launchers are let go, and none begins it anew. That is so if the coordinator is lost when the end of a
 *     job whose world changes is on record. The next job of that name trains within a minute.
 *  8. Worlds. What is restored in another world is as in 3, whatever epoch it was spilled under. No save stands in the store twice. What
 *     2 covers goes on into another world, through storage, if only one node was lost since the last epoch was entered, and nothing else.
 *     Otherwise it may be left behind, because a spill can fail. Without a store, what was replicated and is still whole in memory goes on
 *     into any world. If nothing was lost at all, no rank repeats a finished step. That is so if the world grew, or if a node was drained or
 *     asked to leave.
 *  9. Dead ends. ckpt_wait for verified is refused with -EINVAL only if the settings say that nothing is read back.
 * 10. One coordinator. With a registry, at no time do two daemons hold themselves for a job's coordinator. If the registry ends leases sooner
 *     than it promised, two may, but not in one term. All else holds then, too.
 * 11. Due saves. All ranks that are told whether a save is due at a step of an epoch are told the same. Without faults, all are told.
 * 12. Rollbacks. When a job has gone back, no later epoch goes on from what it gave up, whatever is lost. Only if nothing durable is left that
 *     counts, it may. In 1 and 2 what was given up does not count.
 * 13. Plans. If there is a store or a registry, no two plans of a job have the same number, whoever coordinates. All who follow a number are in
 *     a world of the same size. No rank of it is on two nodes.
 * 14. Drains. With a store or a registry, a drain on record holds under each coordinator. It ends if an operator takes it back, or if nobody is
 *     left who follows a plan of the job. Of a node that was removed nothing is promised.
 * 15. Halts. With a store or a registry, a halt on record is asked of the job under each coordinator. It ends if an operator asks for something
 *     else, or if no process is left that was in an epoch then. Once neither a rank nor a launcher is left, those who begin are not asked.
 * 16. Absence of the registry. If the registry is away and nothing else fails, all ranks train on. When it is back their epoch goes on. A world
 *     that is about to change waits for it. If a rank is lost meanwhile, while no rank copies, the next epoch goes on from the newest step that
 *     all had copied, or a newer one. If a daemon is lost, too, nothing is promised.
 * 17. Coordinators without ranks. If a coordinator that has no ranks is lost, and nothing else, the epoch goes on, and no step is repeated.
 * 18. Removed nodes. A node that was removed from the cluster ends if it runs. When it joins anew, its number is one that no node had before.
 *     Without faults, nobody has a session with its former number.
 * Losses in 2: a daemon that is killed loses what it held for others, a node its own arenas, too. Shown in an arena that was made since a loss,
 * it was copied since, and that loss does not count.
 * Usage: sim_cluster [FIRST [COUNT]]; CKPT_NIGHTLY=1 runs more. CKPT_SIM_TRACE=1 tells what happens, CKPT_LOG=debug what daemons say of it.
 * In every seed CKPT_SIM_ELASTIC=1 changes the world, CKPT_SIM_REGISTRY=1 elects, CKPT_SIM_BACK=1 has the job go back, CKPT_SIM_DUE=1 has ranks
 * ask what is due, which then means another run. CKPT_SIM_STALE=N: with N in 1000 messages one comes that is over (test_stale.c).
 * CKPT_SIM_EVENTS=N: a run has N events with faults.
 * timeout: 900 */
#include "base/clock.h"
#include "base/log.h"
#include "fleet.h"
#include "net_sim.h"
#include "registry_sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SEEDS = 2000,
	SEEDS_NIGHTLY = 100000,
	EVENTS = 450,
	EVENTS_MORE = 1000,
	ELASTIC_EACH = 4,
	MUTE_EACH = 16,
	REGISTRY_EACH = 5,
	MEMBERS_EACH = 2,
	UNASKED_EACH = 7, /* seeds; in one of them no rank asks what is due */
	BACK_EACH = 6
};

/* What may happen in a run, and how often of 1000 events. */
struct profile {
	unsigned kill_rank, kill_daemon, lose, cut, power, drop, refuse;
	uint64_t delay_ns;
	struct disk_faults disk;
};

static struct profile profile;
static uint64_t stale; /* messages that came once more */

/* ---- events ---------------------------------------------------------------------------------------------------------- */

static struct fleet_node *some_node(void)
{
	return &fleet.nodes[rng_below(world_rng(), fleet.n)];
}

static struct fleet_rank *some_rank(void)
{
	uint64_t n = 0, at;
	fleet_each(r) n++;
	if (!n)
		return NULL;
	at = rng_below(world_rng(), n);
	fleet_each(r) if (!at--) return r;
	return NULL;
}

static void pass_time(void)
{
	uint64_t most = rng_below(world_rng(), 20) ? 2 : 60;
	clock_advance(rng_below(world_rng(), most * CLOCK_NS_PER_MS));
}

static void turn_node(struct fleet_node *n)
{
	if (clock_now() < n->frozen_ns) {
		pass_time();
		return;
	}
	if (!n->up && !n->away && rng_chance(world_rng(), 10))
		fleet_start(n);
	else if (n->up && !n->launcher && rng_chance(world_rng(), 20))
		fleet_launch(n);
	else
		fleet_turn(n, false);
	launcher_turn(n);
	pass_time();
}

static void turn_rank(struct fleet_rank *r)
{
	if (r && clock_now() < fleet.nodes[r->home].frozen_ns)
		return;
	if (r && r->alive)
		fleet_step(r);
	else if (r && !fleet.elastic && fleet.nodes[r->home].up && rng_chance(world_rng(), 20))
		fleet_connect(r);
}

/* The ranks of a node that is lost may begin on one that has none. */
static void move_ranks(struct fleet_node *from)
{
	for (unsigned i = 0; i < fleet.n; i++) {
		struct fleet_node *to = &fleet.nodes[i];
		if (to->nranks || !to->up || !from->nranks)
			continue;
		for (uint32_t r = 0; r < fleet.world; r++)
			if (fleet.ranks[r].home == from->id)
				fleet.ranks[r].home = to->id;
		to->nranks = from->nranks;
		from->nranks = 0;
		fleet_trace("the ranks of node %u move to node %u", from->id, to->id);
		fleet_sum.moves++;
		return;
	}
}

/* Where nothing is stored, nobody may know of the job's epochs but those who would be lost with the next. */
static bool may_lose(const struct fleet_node *n)
{
	if (fleet.stored)
		return true;
	for (unsigned i = 0; i < fleet.n; i++)
		if (!fleet.nodes[i].up)
			return false;
	fleet_each(r) if (!r->joined || r->epoch != fleet.told) return false;
	return fleet_connected() && fleet.n > 1 && n;
}

static void lose(struct fleet_node *n)
{
	if (!may_lose(n))
		return;
	fleet_lose(n);
	if (fleet.elastic)
		elastic_lost(n);
	else if (rng_chance(world_rng(), 50))
		move_ranks(n);
}

static void cut(void)
{
	unsigned a = (unsigned)rng_below(world_rng(), fleet.n), b = (unsigned)rng_below(world_rng(), fleet.n);
	bool on = rng_chance(world_rng(), 40), both = rng_chance(world_rng(), 50);
	const struct fleet_node *c = fleet.registry && rng_chance(world_rng(), 50) ? fleet_coordinator() : NULL;
	a = c ? c->id : a; /* most of all it matters to that one */
	if (a == b)
		return;
	fleet_trace("the way from node %u to %u%s is %s", a, b, both ? " and back" : "", on ? "cut" : "mended");
	fleet_cut(a, b, on);
	if (both)
		fleet_cut(b, a, on);
	fleet_sum.cuts += on;
	fleet.cuts++;
	fleet.faults++;
}

static void kill_rank(struct fleet_rank *r)
{
	if (r)
		fleet_kill_rank(r);
}

/* As a machine that is paused, longer than its lease stands: it goes on with what it was at. */
static void freeze(struct fleet_node *n)
{
	n->frozen_ns = clock_now() + rng_below(world_rng(), CLOCK_NS_PER_S);
	fleet_trace("node %u is frozen until %.6f", n->id, (double)n->frozen_ns / 1e9);
	fleet.cuts++;
	fleet.faults++;
	fleet_sum.freezes++;
}

/* Nobody reaches it for a while, or one node does not; or a node stands still. */
static bool registry_event(const struct fleet_node *n)
{
	uint64_t what = rng_below(world_rng(), 1000);
	bool on = rng_chance(world_rng(), 40);
	if (what >= 8 && what < 11) {
		freeze(&fleet.nodes[n->id]);
		return true;
	}
	if (what >= 11)
		return false;
	for (unsigned i = 0; i < fleet.n; i++)
		if (what >= 6 || i == n->id)
			registry_cut(i, on);
	fleet_trace("the way of %s to the registry is %s", what >= 6 ? "all nodes" : "a node", on ? "cut" : "mended");
	fleet.faults++;
	return true;
}

static bool fault(void)
{
	uint64_t what = rng_below(world_rng(), 1000);
	struct fleet_node *n = some_node();
	if (what < profile.kill_rank)
		kill_rank(some_rank());
	else if ((what -= profile.kill_rank) < profile.kill_daemon && n->up)
		(rng_chance(world_rng(), 70) ? fleet_kill_daemon : fleet_stop_daemon)(n);
	else if ((what -= profile.kill_daemon) < profile.lose)
		lose(n);
	else if ((what -= profile.lose) < profile.cut)
		cut();
	else if ((what -= profile.cut) < profile.power && fleet.stored && !fleet.elastic) {
		fleet_power_cut();
		halt_nobody();
	} else
		return (fleet.registry && registry_event(n)) || (fleet.elastic && elastic_event(n)) ||
		       (fleet.goes_back && !rng_below(world_rng(), 25) && fleet_roll_back(n)) ||
		       (!rng_below(world_rng(), 200) && halt_ask());
	return true;
}

static void event(void)
{
	if ((fleet.registry && registry_happens()) || (fleet.members && members_happens()) || halt_interrupt() ||
	    (fleet.elastic && (elastic_interrupt() || drain_interrupt())) || fault())
		return;
	turn_rank(some_rank());
	turn_node(some_node());
}

/* ---- without faults -------------------------------------------------------------------------------------------------- */

/* One node is lost when all is well: the job goes on from what was replicated, or from something newer. */
static void try_loss(void)
{
	struct fleet_node *n = some_node();
	if (!may_lose(n))
		return;
	lose(n);
	fleet_settle("the loss of a node");
	fleet_sum.trials++;
}

/* ---- runs ------------------------------------------------------------------------------------------------------------ */

static unsigned rate(unsigned percent, unsigned most)
{
	return rng_chance(world_rng(), percent) ? 1 + (unsigned)rng_below(world_rng(), most) : 0;
}

static void choose(void)
{
	profile = (struct profile){.kill_rank = rate(50, 4),
				   .kill_daemon = rate(40, 4),
				   .lose = rate(40, 3),
				   .cut = rate(30, 12),
				   .power = rate(10, 1),
				   .drop = rate(20, 3),
				   .refuse = rate(10, 50),
				   .delay_ns = rng_below(world_rng(), 4) * CLOCK_NS_PER_MS,
				   .disk = {.error = rate(15, 10),
					    .no_space = rate(10, 10),
					    .fsync = rate(15, 30),
					    .answer = rate(10, 50),
					    .link = rate(10, 300)}};
}

/* Ranks in blocks, equal ones as a launcher places them, or not, as a world that has changed may be; a node may have none. */
static void place(void)
{
	unsigned nodes = 2 + (unsigned)rng_below(world_rng(), FLEET_NODES_MAX - 1);
	bool stored = rng_chance(world_rng(), 75);
	unsigned idle = nodes > 2 && rng_chance(world_rng(), 50) ? (unsigned)rng_below(world_rng(), nodes) : nodes;
	unsigned each = 1 + (unsigned)rng_below(world_rng(), nodes == 4 && idle == nodes ? 1 : 2);
	bool uneven = rng_chance(world_rng(), 25);
	fleet_begin(nodes, stored, rng_chance(world_rng(), 70) ? "[job]\nverify = no\n" : "");
	for (uint32_t r = 0; r < FLEET_PROCESSES_MAX; r++)
		fleet.ranks[r].used = true;
	fleet.copies = rng_chance(world_rng(), 85);
	fleet.slots += (uint32_t)rng_below(world_rng(), 2);
	fleet.pace_ns = (20 + rng_below(world_rng(), 150)) * CLOCK_NS_PER_MS;
	for (unsigned i = 0; i < nodes; i++) {
		unsigned mine = uneven && nodes < FLEET_NODES_MAX ? 1 + (unsigned)rng_below(world_rng(), 2) : each;
		for (unsigned k = 0; i != idle && k < mine; k++) {
			fleet.ranks[fleet.world++].home = i;
			fleet.nodes[i].nranks++;
		}
	}
	fleet.nprocesses = fleet.world;
}

static bool all_elastic(void)
{
	const char *all = getenv("CKPT_SIM_ELASTIC");
	return all && *all == '1';
}

/* Every so many seeds the world changes. */
static bool is_elastic(uint64_t seed)
{
	return all_elastic() || seed % ELASTIC_EACH == 0;
}

/* And in every so many, whatever the world does, the coordinator is elected; and in half of those in which the world changes. */
static bool has_registry(uint64_t seed)
{
	const char *all = getenv("CKPT_SIM_REGISTRY");
	return (all && *all == '1') || seed % REGISTRY_EACH == 2 || seed % (2 * ELASTIC_EACH) == 0;
}

static bool asks(uint64_t seed)
{
	const char *all = getenv("CKPT_SIM_DUE");
	return (all && *all == '1') || seed % UNASKED_EACH != 4;
}

/* In every so many the job goes back to earlier steps now and then. That is on record where it does not end with a daemon. */
static bool goes_back(uint64_t seed)
{
	const char *all = getenv("CKPT_SIM_BACK");
	return (fleet.stored || fleet.registry) && ((all && *all == '1') || seed % BACK_EACH == 1);
}

static unsigned stale_messages(void)
{
	const char *n = getenv("CKPT_SIM_STALE");
	return n ? (unsigned)strtoul(n, NULL, 10) : 0;
}

/* Nobody says what another one does not understand. */
static void check_words(void)
{
	const struct net_sim_counts *n = net_sim_counts();
	SIM_CHECK(!n->strange || n->stale, "%" PRIu64 " sessions ended for what was said in them", n->strange);
	stale += n->stale;
}

/* The last node may be new, and late. */
static void enlist(uint64_t seed)
{
	bool all = seed % 3;
	fleet.incarnations = 1;
	fleet_enlist(all);
	if (all)
		return;
	fleet.nodes[fleet.n - 1].forgotten = true; /* it has yet to be given a number */
	fleet.nodes[fleet.n - 1].frozen_ns = clock_now() + rng_below(world_rng(), 2 * CLOCK_NS_PER_S);
}

/* What has befallen the registry is seen to its end, mostly. */
static bool goes_on(uint64_t i)
{
	const char *n = getenv("CKPT_SIM_EVENTS");
	uint64_t events = n ? strtoull(n, NULL, 10) : EVENTS;
	return i < events || (i < events + EVENTS_MORE && fleet.registry && (registry_is_broken() || members_change()));
}

static void run(uint64_t seed)
{
	world_reset(seed);
	choose();
	if (is_elastic(seed))
		elastic_place();
	else
		place();
	fleet.mute = seed % MUTE_EACH == 1;
	fleet.asks = asks(seed);
	fleet.registry = has_registry(seed) || (fleet.elastic && !fleet.stored); /* else no epoch is on record */
	fleet.goes_back = goes_back(seed);
	fleet.members = fleet.registry && seed % MEMBERS_EACH == 0;
	members_begin(seed);
	if (fleet.members)
		enlist(seed);
	for (unsigned i = 0; i < fleet.n; i++)
		fleet_start(&fleet.nodes[i]);
	net_sim_faults(
		&(struct net_faults){.delay_ns = profile.delay_ns, .drop = profile.drop, .refuse = profile.refuse});
	fleet_park(seed);
	disk_sim_faults(&profile.disk);
	if (fleet.registry)
		registry_begin(seed, profile.delay_ns, profile.drop);
	net_sim_stale(stale_messages());
	for (uint64_t i = 0; goes_on(i) && !fleet.stopped; i++) {
		sim_context(seed, i);
		event();
		fleet_check();
	}
	fleet_mend();
	fleet_settle("faults");
	members_check_gone();
	if (fleet.elastic)
		elastic_trials();
	else
		try_loss();
	if (fleet.registry)
		registry_trials();
	if (!fleet.elastic)
		fleet_finish();
	else if (!fleet.stopped)
		elastic_finish();
	fleet_check_store();
	check_words();
	fleet_count_world();
	fleet_end();
	world_end();
}

/* A schedule in which nothing happens proves nothing; some things happen where the world stays as it is alone. */
static int report(uint64_t first, uint64_t count)
{
	printf("%" PRIu64 " seeds from %" PRIu64 ":", count, first);
	bool all = fleet_tell_sums(), lacks = count >= 200 && !all_elastic() && !all;
	printf(", %" PRIu64 " stale messages\n%s", stale, lacks ? "some kind of event never happened\n" : "");
	return lacks;
}

int main(int argc, char **argv)
{
	const char *nightly = getenv("CKPT_NIGHTLY");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : nightly && *nightly == '1' ? SEEDS_NIGHTLY : SEEDS;
	log_init("sim");
	if (!getenv("CKPT_LOG"))
		log_set_level(LOG_ERROR);
	for (uint64_t seed = first; seed < first + count; seed++)
		run(seed);
	return report(first, count);
}
