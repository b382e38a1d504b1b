/* Single flipped bits of a copy that another node holds: of its table, of the digests of its leaves, of its data. Whoever fetches it must find each,
 * into its own arena or to hold it, and have the right bytes from the other holder. (Of a table with the same digest nothing is read
 * where there is an arena: there the bytes must be right.)
 * Usage: sim_flipped_copies [STRIDE [PAYLOAD [SEED]]]: every STRIDE-th bit of table and digests, PAYLOAD bits of the data at random.
 * CKPT_NIGHTLY=1: all of the former, 1,000,000 of the latter.
 * timeout: 1800 */
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

enum { STRIDE = 37, PAYLOAD = 1500, PAYLOAD_NIGHTLY = 1000000, NODES = 4, COPIES = 2, TURNS = 10000, BITS = 8 };

static const struct step_id step = {.step = 7, .epoch = 1};

/* Of rank 0: who holds it, in which memory, and who does not. */
static struct {
	unsigned node[COPIES];
	struct memory *mem[COPIES];
	uint32_t slot[COPIES];
	unsigned stranger;
	unsigned waits; /* for answers */
	int rc;         /* of the last one */
} at;

static struct {
	uint64_t flipped, found, refused, mended; /* refused: by the arena, too */
} sum;

static void turn_all(void)
{
	for (unsigned i = 0; i < cluster.n; i++) {
		net_poll(cluster.nodes[i].net);
		replica_tick(cluster.nodes[i].replica);
		pool_poll(cluster.nodes[i].daemon.runtime.pool);
	}
	clock_advance(CLOCK_NS_PER_MS / 16);
}

static void wait_for_answers(const char *what)
{
	for (unsigned i = 0; i < TURNS && at.waits; i++)
		turn_all();
	SIM_CHECK(!at.waits, "%s does not end", what);
}

/* ---- what is held ------------------------------------------------------------------------------------------------ */

static void sent(void *arg, const struct replica_sent *done)
{
	(void)arg;
	SIM_CHECK(!done->rc && done->held == COPIES, "%s", done->err.text);
	at.waits--;
}

static void save(struct node *n)
{
	int slot = cluster_capture(n, step);
	SIM_CHECK(slot >= 0, "memory_claim: %d", slot);
	struct replica_send what = {.job = CLUSTER_JOB,
				    .epoch = n->epoch,
				    .rank = n->id,
				    .id = step,
				    .mem = n->mem,
				    .slot = (uint32_t)slot,
				    .leaves = memory_leaves(n->mem, (uint32_t)slot),
				    .copies = COPIES,
				    .done = sent};
	at.waits++;
	int rc = replica_send(n->replica, &what);
	SIM_CHECK(!rc, "replica_send: %d", rc);
	wait_for_answers("a send");
}

static void find_holders(void)
{
	unsigned found = 0;
	for (unsigned i = 1; i < cluster.n; i++) {
		if (!holds(&cluster.nodes[i], 0, step)) {
			at.stranger = i;
			continue;
		}
		const struct replica_part part = {.rank = 0, .id = step};
		int rc = replica_pin(cluster.nodes[i].replica, CLUSTER_JOB, &part, &at.mem[found], &at.slot[found]);
		SIM_CHECK(!rc, "replica_pin: %d", rc);
		replica_unpin(cluster.nodes[i].replica, at.mem[found], at.slot[found]);
		at.node[found++] = i;
	}
	SIM_CHECK(found == COPIES && at.stranger, "%u holders", found);
}

static void begin(uint64_t seed)
{
	world_reset(seed);
	memset(&cluster, 0, sizeof(cluster));
	cluster.n = NODES;
	cluster.epoch = step.epoch;
	cluster.roster = (struct roster){.nodes = cluster.lines, .n = NODES, .max = NODES};
	for (unsigned i = 0; i < NODES; i++) {
		cluster.lines[i].port = (uint16_t)(7000 + i);
		snprintf(cluster.lines[i].name, sizeof(cluster.lines[i].name), "n%u", i);
		cluster.nodes[i].id = i;
	}
	for (unsigned i = 0; i < NODES; i++) {
		cluster_start(&cluster.nodes[i]);
		cluster.nodes[i].daemon.runtime.config.memory_limit = UINT64_MAX / 2;
	}
	for (unsigned i = 0; i < TURNS / 10; i++)
		turn_all(); /* they find each other */
	save(&cluster.nodes[0]);
	find_holders();
}

/* ---- fetches ----------------------------------------------------------------------------------------------------- */

static void fetched(void *arg, const struct replica_fetched *done)
{
	(void)arg;
	at.rc = done->rc;
	at.waits--;
}

static int fetch(struct node *n, unsigned from, struct memory *mem, uint32_t slot)
{
	struct replica_fetch what = {.job = CLUSTER_JOB,
				     .epoch = n->epoch,
				     .rank = 0,
				     .id = step,
				     .from = from,
				     .mem = mem,
				     .slot = slot,
				     .done = fetched};
	at.waits++;
	int rc = replica_fetch(n->replica, &what);
	SIM_CHECK(!rc, "replica_fetch: %d", rc);
	wait_for_answers("a fetch");
	return at.rc;
}

/* What came is looked at by check_bytes. */
static int fetch_to_arena(unsigned from)
{
	struct node *n = &cluster.nodes[0];
	int slot = memory_claim(n->mem, (struct step_id){.epoch = n->epoch});
	SIM_CHECK(slot >= 0, "memory_claim: %d", slot);
	int rc = fetch(n, from, n->mem, (uint32_t)slot);
	if (!rc)
		check_bytes(n->mem, (uint32_t)slot, 0, step);
	memory_release(n->mem, (uint32_t)slot, false);
	return rc;
}

static int fetch_to_hold(unsigned from)
{
	struct node *n = &cluster.nodes[at.stranger];
	struct memory *mem;
	uint32_t slot;
	int rc = fetch(n, from, NULL, 0);
	SIM_CHECK(!rc == holds(n, 0, step), "rc %d, and %s", rc, rc ? "held" : "not held");
	if (rc)
		return rc;
	rc = replica_pin(n->replica, CLUSTER_JOB, &(struct replica_part){.rank = 0, .id = step}, &mem, &slot);
	SIM_CHECK(!rc, "replica_pin: %d", rc);
	check_bytes(mem, slot, 0, step);
	replica_unpin(n->replica, mem, slot);
	replica_drop(mem, slot);
	return 0;
}

/* ---- flips ------------------------------------------------------------------------------------------------------- */

static void flip(unsigned holder, uint8_t *byte, unsigned bit, bool read_by_all)
{
	unsigned from = at.node[holder], other = at.node[1 - holder];
	*byte ^= (uint8_t)(1u << bit);
	int held = fetch_to_hold(from), own = fetch_to_arena(from);
	SIM_CHECK(held == -EBADMSG, "a flipped bit is not found where the copy goes to be held: %d", held);
	SIM_CHECK(own == -EBADMSG || (!own && !read_by_all), "a flipped bit is not found on the way to an arena: %d",
		  own);
	int again = fetch_to_hold(other), own_again = fetch_to_arena(other);
	SIM_CHECK(!again && !own_again, "the other copy does not do: %d, %d", again, own_again);
	*byte ^= (uint8_t)(1u << bit);
	sum.flipped++;
	sum.found += held == -EBADMSG;
	sum.refused += own == -EBADMSG;
	sum.mended += !again && !own_again;
}

static uint64_t flip_each(uint64_t from, uint64_t stride, void *(*of)(unsigned holder), uint64_t bytes,
			  bool read_by_all)
{
	uint64_t bit = from;
	for (; bit < bytes * BITS; bit += stride) {
		unsigned holder = (unsigned)rng_below(world_rng(), COPIES);
		flip(holder, (uint8_t *)of(holder) + bit / BITS, bit % BITS, read_by_all);
	}
	return bit - bytes * BITS;
}

static void *table_of(unsigned holder)
{
	return at.mem[holder]->base;
}

static void *leaves_of(unsigned holder)
{
	return memory_leaves(at.mem[holder], at.slot[holder]);
}

static void report(const char *what, uint64_t bits)
{
	printf("%s of a copy: %" PRIu64 " bits, %" PRIu64 " flipped, %" PRIu64 " found, %" PRIu64
	       " by an arena, too; %" PRIu64 " had from the other copy\n",
	       what, bits, sum.flipped, sum.found, sum.refused, sum.mended);
	memset(&sum, 0, sizeof(sum));
}

static void flip_metadata(uint64_t stride)
{
	uint64_t leaves = at.mem[0]->layout.nleaves * sizeof(uint64_t);
	uint64_t next = flip_each(rng_below(world_rng(), stride), stride, table_of, at.mem[0]->table_len, false);
	flip_each(next, stride, leaves_of, leaves, true);
	report("metadata", (at.mem[0]->table_len + leaves) * BITS);
}

static void flip_data(uint64_t count)
{
	const uint64_t bits = ELEMENTS * sizeof(uint32_t) * BITS;
	for (uint64_t i = 0; i < count; i++) {
		unsigned holder = (unsigned)rng_below(world_rng(), COPIES);
		uint64_t bit = rng_below(world_rng(), bits);
		flip(holder, memory_slot(at.mem[holder], at.slot[holder]) + bit / BITS, bit % BITS, true);
	}
	report("data", bits);
}

int main(int argc, char **argv)
{
	const char *nightly = getenv("CKPT_NIGHTLY");
	bool all = nightly && *nightly == '1';
	uint64_t stride = argc > 1 ? strtoull(argv[1], NULL, 10) : all ? 1 : STRIDE;
	uint64_t payload = argc > 2 ? strtoull(argv[2], NULL, 10) : all ? PAYLOAD_NIGHTLY : PAYLOAD;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	log_init("sim");
	if (!getenv("CKPT_LOG"))
		log_set_level(LOG_ERROR);
	begin(seed);
	SIM_CHECK(!fetch_to_hold(at.node[0]) && !fetch_to_arena(at.node[0]), "not intact without a flip: %d", at.rc);
	flip_metadata(stride);
	flip_data(payload);
	for (unsigned i = 0; i < cluster.n; i++)
		replica_end(cluster.nodes[i].replica, CLUSTER_JOB);
	for (unsigned i = 0; i < TURNS / 10; i++)
		turn_all();
	for (unsigned i = 0; i < cluster.n; i++)
		cluster_stop(&cluster.nodes[i], false);
	world_end();
	return 0;
}
