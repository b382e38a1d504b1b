/* Copies between the memories of several nodes, on a net that delays, loses and is cut, with nodes that die, memory that runs short, and
 * epochs that are raised while things are on their way. Whatever happens: what a node holds is what was captured, and nobody can write to
 * it; what was said to be replicated stays until a newer one is; every send and fetch ends once; nothing leaks.
 * Usage: sim_replica [FIRST [COUNT]]; CKPT_NIGHTLY=1 runs more. */
#include "arena/slot_check.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "net_sim.h"
#include "replica_cluster.h"
#include "rng.h"
#include "runtime/workers.h"
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 60, SEEDS_NIGHTLY = 4000, EVENTS = 2500 };

struct replicated {
	struct step_id id;
	unsigned life[NODES_MAX];         /* when it was told */
	bool holds[NODES_MAX][NODES_MAX]; /* [rank][holder] */
};

static struct {
	unsigned copies;
	struct step_id round; /* that is being replicated */
	unsigned ended, full; /* ranks that have been told, and those with all copies */
	bool told[NODES_MAX];
	struct replicated replicated;
} c;

static struct {
	uint64_t sends, held, whole_rounds, fetches, fetched, kills, epochs, refused, damaged, stale, remade, late,
		surveys, own;
} sum;

/* Who lives since then has still what it had when it was told. */
static void check_promise(void)
{
	const struct replicated *p = &c.replicated;
	for (unsigned r = 0; p->id.epoch && r < cluster.n; r++)
		for (unsigned h = 0; h < cluster.n; h++)
			SIM_CHECK(!p->holds[r][h] || cluster.nodes[h].life != p->life[h] || !cluster.nodes[h].replica ||
					  holds(&cluster.nodes[h], r, p->id),
				  "step %lu was replicated, and node %u has no longer its copy of rank %u",
				  (unsigned long)p->id.step, h, r);
}

static void lose_node(struct node *n, bool killed)
{
	const struct replica_counts *counts = replica_counts(n->replica);
	sum.stale += counts->stale;
	sum.remade += counts->remade;
	sum.refused += counts->refused;
	cluster_stop(n, killed);
}

/* In a new epoch nobody reaches anything until it is opened anew. */
static void raise_epoch(struct node *n)
{
	bool news = replica_known_epoch(n->replica, CLUSTER_JOB) < cluster.epoch;
	n->epoch = cluster.epoch;
	replica_epoch(n->replica, CLUSTER_JOB, cluster.epoch);
	SIM_CHECK(!news || !net_sim_regions(n->id), "%u regions are open in a new epoch", net_sim_regions(n->id));
}

/* ---- saving ---------------------------------------------------------------------------------------------------------- */

static void release_old(struct node *n, struct step_id keep)
{
	for (uint32_t i = 0; i < n->mem->nslots; i++)
		if (n->sent[i].epoch && step_compare(n->sent[i], keep) && !n->mem->slots[i].copies &&
		    step_compare(n->sent[i], c.round)) {
			memory_release(n->mem, i, false);
			n->sent[i] = (struct step_id){0};
		}
}

static int capture(struct node *n, struct step_id id, bool damaged)
{
	int slot = cluster_capture(n, id);
	if (slot < 0)
		return slot;
	if (damaged)
		((uint32_t *)memory_slot(n->mem, (uint32_t)slot))[rng_below(world_rng(), ELEMENTS)] ^= 4;
	n->sent[slot] = id;
	return slot;
}

/* The job's round is over: replicated if every rank has all its copies. */
static void end_round(void)
{
	if (c.full < cluster.n) {
		c.ended = c.full = 0;
		c.round = (struct step_id){0};
		return;
	}
	struct replicated *p = &c.replicated;
	*p = (struct replicated){.id = c.round};
	for (unsigned h = 0; h < cluster.n; h++) {
		p->life[h] = cluster.nodes[h].life;
		for (unsigned r = 0; r < cluster.n; r++)
			p->holds[r][h] = holds(&cluster.nodes[h], r, p->id);
	}
	for (unsigned i = 0; i < cluster.n; i++)
		if (cluster.nodes[i].replica && rng_chance(world_rng(), 70))
			replica_forget(cluster.nodes[i].replica, CLUSTER_JOB, p->id);
	sum.whole_rounds++;
	c.ended = c.full = 0;
	c.round = (struct step_id){0};
}

static void sent(void *arg, const struct replica_sent *done)
{
	struct node *n = arg;
	unsigned found = 0, restarted = 0;
	SIM_CHECK(n->sending, "node %u is told twice", n->id);
	n->sending = false;
	for (unsigned h = 0; h < cluster.n; h++) {
		found += h != n->id && holds(&cluster.nodes[h], n->id, done->id);
		restarted += cluster.nodes[h].life != n->life_of[h] || !cluster.nodes[h].replica;
	}
	SIM_CHECK(done->held <= found + restarted, "%u copies are said to be held, %u are", done->held, found);
	SIM_CHECK(!done->rc == (done->held && done->held >= done->wanted), "rc %d, %u of %u held", done->rc, done->held,
		  done->wanted);
	SIM_CHECK(!done->rc || *done->err.text, "no reason is given for %d", done->rc);
	sum.held += done->held;
	sum.damaged += done->rc == -EBADMSG;
	if (!step_compare(done->id, c.round) && !c.told[n->id]) {
		c.told[n->id] = true;
		c.ended++;
		c.full += !done->rc;
		if (c.ended == cluster.n)
			end_round();
	}
}

/* All ranks save a step, as the next round. A damaged one is never held: that is what is looked at. */
static void save_round(uint64_t step)
{
	if (c.round.epoch)
		return;
	for (unsigned i = 0; i < cluster.n; i++)
		if (!cluster.nodes[i].replica || cluster.nodes[i].sending || cluster.nodes[i].epoch != cluster.epoch)
			return;
	struct step_id id = {.step = step, .epoch = cluster.epoch};
	memset(c.told, 0, sizeof(c.told));
	c.round = id;
	for (unsigned i = 0; i < cluster.n; i++) {
		struct node *n = &cluster.nodes[i];
		release_old(n, c.replicated.id);
		int slot = capture(n, id, rng_chance(world_rng(), 3));
		struct replica_send what = {.job = CLUSTER_JOB,
					    .epoch = n->epoch,
					    .rank = i,
					    .id = id,
					    .keep = c.replicated.id,
					    .mem = n->mem,
					    .slot = (uint32_t)slot,
					    .leaves = slot < 0 ? NULL : memory_leaves(n->mem, (uint32_t)slot),
					    .copies = c.copies,
					    .done = sent,
					    .arg = n};
		for (unsigned h = 0; h < cluster.n; h++)
			n->life_of[h] = cluster.nodes[h].life;
		int rc = slot < 0 ? slot : replica_send(n->replica, &what);
		SIM_CHECK(!rc || rc == -EBUSY || rc == -ESTALE, "replica_send: %d", rc);
		n->sending = !rc;
		sum.sends += !rc;
		if (rc) {
			c.told[i] = true;
			c.ended++;
		}
	}
	if (c.ended == cluster.n)
		end_round();
}

/* ---- fetching -------------------------------------------------------------------------------------------------------- */

/* Told of in order, and right when it is told. */
static void arrived(void *arg, const char *job, uint32_t rank, uint64_t first, uint64_t count)
{
	struct node *n = arg;
	struct slot_leaves told = {.first = first, .count = count};
	uint64_t bad;
	SIM_CHECK(!strcmp(job, CLUSTER_JOB) && rank == n->id && first == n->arrived && count, "told of something else");
	n->arrived += count;
	SIM_CHECK(slot_check_leaves(n->mem, (uint32_t)n->claimed, &told, &bad), "told of leaf %" PRIu64, bad);
}

static void fetched(void *arg, const struct replica_fetched *done)
{
	struct node *n = arg;
	SIM_CHECK(n->fetching > 0, "a fetch ends twice");
	n->fetching--;
	SIM_CHECK(!done->rc || *done->err.text, "no reason is given for %d", done->rc);
	SIM_CHECK(done->rc || n->arrived == n->mem->layout.nleaves, "not all leaves were told of");
	if (!done->rc)
		check_bytes(n->mem, (uint32_t)n->claimed, n->id, done->id);
	SIM_CHECK(done->rc || n->mem->head->slots[n->claimed].began == began_of(done->id),
		  "fetched without where it began");
	SIM_CHECK(done->rc || memory_lacks(n->mem, (uint32_t)n->claimed) == lacks_of(done->id),
		  "fetched without what it lacks");
	sum.fetched += !done->rc;
	memory_release(n->mem, (uint32_t)n->claimed, false);
	n->claimed = -1;
}

static void fetched_to_hold(void *arg, const struct replica_fetched *done)
{
	struct node *n = arg;
	SIM_CHECK(n->fetching > 0, "a fetch ends twice");
	n->fetching--;
	SIM_CHECK(done->rc || holds(n, done->rank, done->id), "fetched, and not held");
	sum.fetched += !done->rc;
}

static void some_fetch(struct node *n)
{
	bool own = n->claimed < 0 && rng_chance(world_rng(), 60);
	struct step_id id = rng_chance(world_rng(), 70) || !c.round.epoch ? c.replicated.id : c.round;
	int slot = own && id.epoch ? memory_claim(n->mem, (struct step_id){.epoch = n->epoch}) : -1;
	if (!id.epoch || (own && slot < 0))
		return;
	struct replica_fetch what = {.job = CLUSTER_JOB,
				     .epoch = n->epoch,
				     .rank = own ? n->id : (uint32_t)rng_below(world_rng(), cluster.n),
				     .id = id,
				     .from = (unsigned)rng_below(world_rng(), cluster.n),
				     .mem = own ? n->mem : NULL,
				     .slot = own ? (uint32_t)slot : 0,
				     .arrived = own ? arrived : NULL,
				     .done = own ? fetched : fetched_to_hold,
				     .arg = n};
	n->fetching++;
	n->claimed = own ? slot : n->claimed;
	n->arrived = own ? 0 : n->arrived;
	sum.fetches++;
	if (!replica_fetch(n->replica, &what))
		return;
	n->fetching--;
	if (own) {
		memory_release(n->mem, (uint32_t)slot, false);
		n->claimed = -1;
	}
}

/* ---- asking who holds what ------------------------------------------------------------------------------------------- */

/* The node has it all the while, in the life in which it was asked, and has answered. */
static void check_own(const struct replica_surveyed *s, unsigned node, const struct own_step *own)
{
	const struct node *n = &cluster.nodes[node];
	bool found = false;
	if (!own->id.epoch || n->life != own->life || !n->replica || step_compare(n->sent[own->slot], own->id) != 0)
		return;
	for (size_t i = 0; i < s->n; i++)
		found |= s->found[i].node == node && s->found[i].owner == node && s->found[i].rank == node &&
			 !step_compare(s->found[i].id, own->id);
	SIM_CHECK(found, "node %u has step %lu in its own arena, and did not say so", node,
		  (unsigned long)own->id.step);
	sum.own++;
}

/* Its newest. */
static struct own_step own_of(const struct node *n)
{
	struct own_step own = {.life = n->life};
	for (uint32_t i = 0; n->mem && i < n->mem->nslots; i++)
		if (step_compare(n->sent[i], own.id) > 0) {
			own.id = n->sent[i];
			own.slot = i;
		}
	return own;
}

/* A node that has answered, and lives on in the same session, has told of all that it holds: what it holds now and was not told of came
 * later. What was replicated when it was asked is there. */
static void surveyed(void *arg, const struct replica_surveyed *s)
{
	struct node *n = arg;
	SIM_CHECK(n->surveying, "a survey ends twice");
	n->surveying = false;
	SIM_CHECK(s->unheard < cluster.n, "not even this node has answered");
	SIM_CHECK(!s->unheard == !*s->names, "%u nodes are missing: '%s'", s->unheard, s->names);
	for (size_t i = 0; i < s->n; i++)
		SIM_CHECK(s->found[i].node < cluster.n && s->found[i].rank < cluster.n &&
				  s->found[i].world == cluster.n && s->found[i].id.epoch <= cluster.epoch,
			  "what was found cannot be");
	for (unsigned h = 0; !s->unheard && h < cluster.n; h++)
		check_own(s, h, &n->survey_own[h]);
	for (unsigned r = 0; !s->unheard && n->survey_of.epoch && r < cluster.n; r++) {
		bool there = !n->survey_held[r];
		for (size_t i = 0; i < s->n; i++)
			there |= s->found[i].rank == r && step_compare(s->found[i].id, n->survey_of) >= 0;
		for (unsigned h = 0; h < cluster.n; h++)
			there |= cluster.nodes[h].life != n->survey_life[h];
		SIM_CHECK(there, "no copy of rank %u is found, and all have answered", r);
	}
	sum.surveys += !s->unheard;
}

static void some_survey(struct node *n)
{
	if (n->surveying)
		return;
	n->survey_of = c.replicated.id;
	memset(n->survey_held, 0, sizeof(n->survey_held));
	for (unsigned h = 0; h < cluster.n; h++) {
		n->survey_life[h] = c.replicated.life[h];
		n->survey_own[h] = own_of(&cluster.nodes[h]);
		for (unsigned r = 0; r < cluster.n; r++)
			n->survey_held[r] |= c.replicated.holds[r][h];
	}
	n->surveying = true;
	n->surveying = !replica_survey(n->replica, CLUSTER_JOB, n->epoch, surveyed, n) && n->surveying;
}

/* ---- events ------------------------------------------------------------------------------------------------------------ */

static void turn(struct node *n)
{
	uint64_t what = rng_below(world_rng(), 10);
	if (!n->replica)
		return;
	if (what < 5)
		net_poll(n->net);
	else if (what < 8)
		replica_tick(n->replica);
	else
		pool_poll(n->daemon.runtime.pool);
	clock_advance(rng_below(world_rng(), CLOCK_NS_PER_MS));
}

static void lose(struct node *n)
{
	if (c.round.epoch && !c.told[n->id]) {
		c.told[n->id] = true;
		c.ended++;
	}
	lose_node(n, true);
	if (c.ended == cluster.n)
		end_round();
	sum.kills++;
}

static void event(void)
{
	struct node *n = &cluster.nodes[rng_below(world_rng(), cluster.n)];
	unsigned to = (unsigned)rng_below(world_rng(), cluster.n);
	uint64_t what = rng_below(world_rng(), 1000);
	if (!n->replica && what < 50)
		cluster_start(n);
	else if (!n->replica || what < 960)
		turn(n);
	else if (what < 962)
		lose(n);
	else if (what < 964)
		cluster.epoch++, sum.epochs++;
	else if (what < 974)
		raise_epoch(n);
	else if (what < 976)
		some_survey(n);
	else if (what < 984)
		some_fetch(n);
	else if (what < 988 && to != n->id)
		net_sim_cut(n->id, to, rng_chance(world_rng(), 25));
	else if (what < 990 && to != n->id)
		net_sim_slow(n->id, to, rng_chance(world_rng(), 30) ? 4 << 20 : 0);
	else if (what < 991)
		cluster.rate = rng_chance(world_rng(), 30) ? 8 << 20 : 0;
	else
		save_round(++cluster.nodes[0].next_step);
}

static bool busy(void)
{
	for (unsigned i = 0; i < cluster.n; i++)
		if (cluster.nodes[i].sending || cluster.nodes[i].fetching || cluster.nodes[i].surveying)
			return true;
	return false;
}

/* Without faults everything ends, a round is replicated, and when the job has ended nobody holds anything. */
static void settle(void)
{
	net_sim_faults(&(struct net_faults){0});
	cluster.rate = 0;
	for (unsigned a = 0; a < cluster.n; a++) {
		for (unsigned b = 0; b < cluster.n; b++) {
			net_sim_cut(a, b, false);
			net_sim_slow(a, b, 0);
		}
		if (!cluster.nodes[a].replica)
			cluster_start(&cluster.nodes[a]);
		raise_epoch(&cluster.nodes[a]);
		cluster.nodes[a].daemon.runtime.config.memory_limit = UINT64_MAX / 2;
	}
	uint64_t rounds = 0;
	for (int i = 0; i < 10000 && (busy() || rounds < 1); i++) {
		turn(&cluster.nodes[rng_below(world_rng(), cluster.n)]);
		if (!busy() && i > 2000) {
			uint64_t before = sum.whole_rounds;
			save_round(++cluster.nodes[0].next_step);
			for (int k = 0; k < 20000 && busy(); k++)
				turn(&cluster.nodes[rng_below(world_rng(), cluster.n)]);
			rounds += sum.whole_rounds - before;
		}
	}
	SIM_CHECK(!busy(), "something does not end");
	SIM_CHECK(rounds, "no round is replicated although nothing fails");
	for (unsigned i = 0; i < cluster.n; i++)
		check_node(&cluster.nodes[i], true);
	check_promise();
	for (unsigned i = 0; i < cluster.n; i++)
		replica_end(cluster.nodes[i].replica, CLUSTER_JOB);
	for (int i = 0; i < 5000; i++)
		turn(&cluster.nodes[rng_below(world_rng(), cluster.n)]);
	for (unsigned i = 0; i < cluster.n; i++)
		SIM_CHECK(!cluster.nodes[i].daemon.runtime.memory.copies,
			  "node %u holds copies of a job that has ended", i);
}

static void begin(uint64_t seed)
{
	world_reset(seed);
	memset(&c, 0, sizeof(c));
	memset(&cluster, 0, sizeof(cluster));
	cluster.n = 2 + (unsigned)rng_below(world_rng(), NODES_MAX - 1);
	c.copies = 1 + (unsigned)rng_below(world_rng(), 2);
	cluster.epoch = 1;
	cluster.roster = (struct roster){.nodes = cluster.lines, .n = cluster.n, .max = cluster.n};
	unsigned racks = 1 + (unsigned)rng_below(world_rng(), 3);
	for (unsigned i = 0; i < cluster.n; i++) {
		cluster.lines[i].port = (uint16_t)(7000 + i);
		snprintf(cluster.lines[i].name, sizeof(cluster.lines[i].name), "n%u", i);
		snprintf(cluster.lines[i].rack, sizeof(cluster.lines[i].rack), "r%u", i % racks);
		cluster.nodes[i].id = i;
	}
	for (unsigned i = 0; i < cluster.n; i++)
		cluster_start(&cluster.nodes[i]);
	net_sim_faults(&(struct net_faults){.delay_ns = rng_below(world_rng(), 4 * CLOCK_NS_PER_MS),
					    .drop = seed % 3 ? 0 : 1,
					    .refuse = seed % 4 ? 0 : 100});
}

static void run(uint64_t seed)
{
	begin(seed);
	for (uint64_t i = 0; i < EVENTS; i++) {
		sim_context(seed, i);
		event();
		check_node(&cluster.nodes[i % cluster.n], i % 64 == 0);
		check_promise();
	}
	settle();
	sum.late += net_sim_counts()->late;
	for (unsigned i = 0; i < cluster.n; i++)
		lose_node(&cluster.nodes[i], false);
	world_end();
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
	printf("%" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " sends, %" PRIu64 " copies held, %" PRIu64
	       " rounds replicated, %" PRIu64 " of %" PRIu64 " fetches, %" PRIu64 " kills, %" PRIu64 " epochs, %" PRIu64
	       " refused, %" PRIu64 " damaged, %" PRIu64 " stale, %" PRIu64 " made anew, %" PRIu64
	       " late writes, %" PRIu64 " surveys that all answered, %" PRIu64 " arenas told of\n",
	       count, first, sum.sends, sum.held, sum.whole_rounds, sum.fetched, sum.fetches, sum.kills, sum.epochs,
	       sum.refused, sum.damaged, sum.stale, sum.remade, sum.late, sum.surveys, sum.own);
	if (count >= 50 &&
	    (!sum.held || !sum.whole_rounds || !sum.fetched || !sum.kills || !sum.epochs || !sum.refused ||
	     !sum.damaged || !sum.stale || !sum.remade || !sum.late || !sum.surveys || !sum.own)) {
		printf("some kind of event never happened\n");
		return 1;
	}
	return 0;
}
