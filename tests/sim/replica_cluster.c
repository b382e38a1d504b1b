#include "replica_cluster.h"

#include "arena/slot_check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "net_sim.h"
#include "rng.h"
#include "runtime/workers.h"
#include "world.h"

#include <string.h>

enum { PATIENCE_MS = 2000, SILENCE_MS = 300 };

struct cluster cluster;

uint32_t value(uint32_t rank, struct step_id id, uint64_t i)
{
	return (uint32_t)mix64(i ^ (uint64_t)rank << 56 ^ id.step << 24 ^ (uint64_t)id.epoch << 48);
}

static void make_arena(struct node *n)
{
	AUTO_WBUF struct wbuf out = {0};
	struct err err = {{0}};
	struct shape shape = {.ndim = 1, .dim = {(uint64_t)ELEMENTS * cluster.n}};
	struct region mine = region_flat((uint64_t)ELEMENTS * n->id, ELEMENTS);
	struct entry entry = {.name = (char *)"w",
			      .kind = ENTRY_TENSOR,
			      .dtype = DTYPE_U32,
			      .shape = shape,
			      .group = "params",
			      .npieces = 1,
			      .pieces = &mine};
	struct registration reg = {.rank = n->id, .world = cluster.n, .nentries = 1, .entries = &entry};
	struct table *table;
	struct layout layout;
	const struct registration *list;
	SIM_CHECK(!registration_encode(&reg, &out) && !table_decode(out.data, out.len, &table, &err), "%s", err.text);
	list = &table->reg;
	SIM_CHECK(!layout_make(&list, 1, false, LAYOUT_FILE_MAX, &layout, &err), "%s", err.text);
	int rc = memory_create(CLUSTER_JOB, table, &layout, 4, HUGE_PAGES_NEVER, &n->mem, &err);
	SIM_CHECK(!rc, "%s", err.text);
	table_put(table);
	n->daemon.runtime.memory.arenas = n->mem->size;
	memset(n->sent, 0, sizeof(n->sent));
	n->claimed = -1;
}

static int find(void *arg, const char *job, uint32_t rank, struct step_id id, struct memory **mem, uint32_t *slot)
{
	struct node *n = arg;
	SIM_CHECK(!strcmp(job, CLUSTER_JOB), "job %s", job);
	for (uint32_t i = 0; rank == n->id && i < n->mem->nslots; i++)
		if (n->sent[i].epoch && !step_compare(n->sent[i], id)) {
			*mem = n->mem;
			*slot = i;
			return 0;
		}
	return -ENOENT;
}

static void own(void *arg, const char *job, void (*fn)(void *to, const struct replica_item *item), void *to)
{
	const struct node *n = arg;
	SIM_CHECK(!strcmp(job, CLUSTER_JOB), "job %s", job);
	for (uint32_t i = 0; i < n->mem->nslots; i++)
		if (n->sent[i].epoch)
			fn(to, &(struct replica_item){.rank = n->id,
						      .world = cluster.n,
						      .owner = n->id,
						      .id = n->sent[i],
						      .table = n->mem->sum});
}

static void up(void *arg, unsigned from)
{
	replica_node_up(((struct node *)arg)->replica, from);
}

static void down(void *arg, unsigned from, int rc)
{
	(void)rc;
	replica_node_down(((struct node *)arg)->replica, from);
}

static void message(void *arg, unsigned from, uint16_t type, const void *body, size_t len)
{
	replica_message(((struct node *)arg)->replica, from, type, body, len);
}

void cluster_start(struct node *n)
{
	struct err err;
	struct net_config config = {
		.roster = &cluster.roster, .self = n->id, .peer_timeout_ns = SILENCE_MS * CLOCK_NS_PER_MS};
	struct net_events events = {.up = up, .down = down, .message = message, .arg = n};
	daemon_init(&n->daemon);
	list_init(&n->daemon.jobs.list);
	/* The arena, and copies for two ranks or for all. */
	make_arena(n);
	n->daemon.runtime.config.memory_limit =
		n->mem->size + (rng_chance(world_rng(), 30) ? 11ull << 20 : 64ull << 20);
	SIM_CHECK(!pool_new(1, &n->daemon.runtime.pool, &err), "pool");
	SIM_CHECK(!net_new(&config, &events, &n->net, &err), "net");
	struct replica_config rc = {.pool = n->daemon.runtime.pool,
				    .memory = &n->daemon.runtime.memory,
				    .memory_limit = &n->daemon.runtime.config.memory_limit,
				    .net = n->net,
				    .roster = &cluster.roster,
				    .self = n->id,
				    .bandwidth = &cluster.rate,
				    .patience_ns = PATIENCE_MS * CLOCK_NS_PER_MS,
				    .find = find,
				    .own = own,
				    .arg = n};
	SIM_CHECK(!replica_new(&rc, &n->replica), "memory");
	n->epoch = cluster.epoch;
	replica_epoch(n->replica, CLUSTER_JOB, n->epoch);
	n->life++;
}

int cluster_capture(struct node *n, struct step_id id)
{
	int slot = memory_claim(n->mem, id);
	if (slot < 0)
		return slot;
	uint32_t *data = (uint32_t *)memory_slot(n->mem, (uint32_t)slot);
	for (uint64_t i = 0; i < ELEMENTS; i++)
		data[i] = value(n->id, id, i);
	memory_digest(n->mem, (uint32_t)slot, 0, n->mem->layout.nleaves, memory_leaves(n->mem, (uint32_t)slot));
	memory_tell_began(n->mem, (uint32_t)slot, began_of(id));
	memory_tell_lacks(n->mem, (uint32_t)slot, lacks_of(id));
	return slot;
}

void cluster_stop(struct node *n, bool killed)
{
	if (killed)
		net_sim_kill(n->id);
	pool_free(n->daemon.runtime.pool);
	net_free(n->net);
	replica_free(n->replica);
	SIM_CHECK(!n->daemon.runtime.memory.copies, "%lu bytes of copies leak",
		  (unsigned long)n->daemon.runtime.memory.copies);
	for (uint32_t i = 0; i < n->mem->nslots; i++)
		SIM_CHECK(!n->mem->slots[i].copies, "slot %u is still being copied", i);
	SIM_CHECK(n->mem->refs == 1, "%u references to an arena", n->mem->refs);
	memory_put(n->mem);
	n->mem = NULL;
	n->net = NULL;
	n->replica = NULL;
	n->sending = false;
	n->fetching = 0;
	n->surveying = false;
}

void check_bytes(const struct memory *mem, uint32_t slot, uint32_t rank, struct step_id id)
{
	const uint32_t *data = (const uint32_t *)memory_slot(mem, slot);
	uint64_t bad = 0;
	for (uint64_t i = 0; i < ELEMENTS; i++)
		SIM_CHECK(data[i] == value(rank, id, i), "rank %u step %lu element %lu is wrong", rank,
			  (unsigned long)id.step, (unsigned long)i);
	SIM_CHECK(slot_check(mem, slot, &bad), "leaf %lu is wrong", (unsigned long)bad);
}

struct look {
	struct node *node;
	bool bytes;
	unsigned found;
	uint32_t rank;
	struct step_id id;
};

static void look_at(void *arg, const struct replica_item *item)
{
	struct look *look = arg;
	struct memory *mem;
	uint32_t slot;
	look->found += item->rank == look->rank && !step_compare(item->id, look->id);
	int rc = replica_pin(look->node->replica, CLUSTER_JOB,
			     &(struct replica_part){.rank = item->rank, .world = item->world, .id = item->id}, &mem,
			     &slot);
	SIM_CHECK(!rc, "it is in the inventory and not there");
	SIM_CHECK(!net_sim_writable(memory_slot(mem, slot), mem->slot_size) &&
			  !net_sim_writable(memory_leaves(mem, slot), mem->layout.nleaves * sizeof(uint64_t)) &&
			  !net_sim_writable(mem->base, mem->table_len),
		  "a whole copy can be written to");
	SIM_CHECK(memory_began(mem, slot) == began_of(item->id),
		  "a copy tells another beginning than what was captured");
	SIM_CHECK(memory_lacks(mem, slot) == lacks_of(item->id), "a copy lacks another part than what was restored");
	if (look->bytes)
		check_bytes(mem, slot, item->rank, item->id);
	replica_unpin(look->node->replica, mem, slot);
}

bool holds(struct node *n, uint32_t rank, struct step_id id)
{
	struct look look = {.node = n, .rank = rank, .id = id};
	if (n->replica)
		replica_inventory(n->replica, CLUSTER_JOB, look_at, &look);
	return look.found > 0;
}

/* bytes: this costs time. */
void check_node(struct node *n, bool bytes)
{
	struct look look = {.node = n, .bytes = bytes};
	if (!n->replica)
		return;
	replica_inventory(n->replica, CLUSTER_JOB, look_at, &look);
	SIM_CHECK(n->daemon.runtime.memory.copies + n->daemon.runtime.memory.arenas <=
			  n->daemon.runtime.config.memory_limit,
		  "%lu bytes of copies exceed the limit", (unsigned long)n->daemon.runtime.memory.copies);
}
