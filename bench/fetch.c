/* bench_fetch [--mib N] [--rounds N] [--sealed|--fabric]: what a new rank lacks is fetched from the memory of another node's daemon into a slot of its arena, over tcp
 * on loopback, by replica_fetch of ckptd, and the same bytes by a bare loop of libfabric reads or writes, whichever is faster, in turns
 * (shared/raw.h). Both sides are on this machine, the pages of both slots have been touched.
 *
 *	fetch  from replica_fetch() until it says that all is there and every leaf matches its digest     floor 0.7 of raw
 *	raw    from the first to the last completion
 *
 * What was fetched is compared with the source afterwards. */
#include "arena/memory.h"
#include "base/clock.h"
#include "cluster/roster.h"
#include "daemon.h"
#include "replication/replication.h"
#include "runtime/workers.h"
#include "shared/raw.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TICK_MS = 2, EPOCH = 1 };

static const char job[] = "main";
static const struct step_id id = {.step = 7, .epoch = EPOCH};

/* One side: a daemon without a loop, and an arena. */
struct side {
	struct daemon daemon;
	struct replica *replica;
	struct memory *mem;
	struct step_id held; /* in slot 0 */
	bool done;
	int rc;
};

static void up(void *arg, unsigned node)
{
	replica_node_up(((struct side *)arg)->replica, node);
}

static void down(void *arg, unsigned node, int rc)
{
	(void)rc;
	replica_node_down(((struct side *)arg)->replica, node);
}

static void message(void *arg, unsigned node, uint16_t type, const void *body, size_t len)
{
	replica_message(((struct side *)arg)->replica, node, type, body, len);
}

static int find(void *arg, const char *name, uint32_t rank, struct step_id which, struct memory **mem, uint32_t *slot)
{
	struct side *side = arg;
	if (strcmp(name, job) != 0 || rank || step_compare(which, side->held) != 0)
		return -ENOENT;
	*mem = side->mem;
	*slot = 0;
	return 0;
}

static void turn(struct side *side)
{
	struct pollfd fds[2] = {{.fd = net_event_fd(side->daemon.peers.net), .events = POLLIN},
				{.fd = pool_event_fd(side->daemon.runtime.pool), .events = POLLIN}};
	if (!poll(fds, 2, TICK_MS))
		replica_tick(side->replica);
	net_poll(side->daemon.peers.net);
	pool_poll(side->daemon.runtime.pool);
}

/* One tensor of the size, in one piece. */
static struct memory *make_arena(void)
{
	struct wbuf out = {0};
	struct err err = {{0}};
	struct region all = region_flat(0, raw_size / 4);
	struct entry entry = {.name = (char *)"w",
			      .kind = ENTRY_TENSOR,
			      .dtype = DTYPE_F32,
			      .shape = {.ndim = 1, .dim = {raw_size / 4}},
			      .group = "params",
			      .npieces = 1,
			      .pieces = &all};
	struct registration reg = {.world = 1, .nentries = 1, .entries = &entry};
	const struct registration *list;
	struct table *table;
	struct layout layout;
	struct memory *mem;
	if (registration_encode(&reg, &out) || table_decode(out.data, out.len, &table, &err))
		raw_die("the registration", ENOMEM);
	list = &table->reg;
	if (layout_make(&list, 1, false, LAYOUT_FILE_MAX, &layout, &err) ||
	    memory_create(job, table, &layout, ARENA_SLOTS_MIN, HUGE_PAGES_NEVER, &mem, &err))
		raw_die("an arena", ENOMEM);
	table_put(table);
	wbuf_free(&out);
	return mem;
}

static void side_open(struct side *side, unsigned self)
{
	struct err err = {{0}};
	struct net_events events = {.up = up, .down = down, .message = message, .arg = side};
	static const uint64_t no_limit;
	*side = (struct side){.daemon = {.storage.root = -1, .peers.self = self, .peers.roster = raw_roster()},
			      .mem = make_arena()};
	list_init(&side->daemon.jobs.list);
	side->daemon.runtime.config.memory_limit = 8 * side->mem->size;
	if (pool_new(0, &side->daemon.runtime.pool, &err))
		raw_die("threads", ENOMEM);
	side->daemon.peers.net = raw_net(self, side->daemon.peers.roster, &events);
	struct replica_config config = {.pool = side->daemon.runtime.pool,
					.memory = &side->daemon.runtime.memory,
					.memory_limit = &side->daemon.runtime.config.memory_limit,
					.net = side->daemon.peers.net,
					.roster = side->daemon.peers.roster,
					.self = self,
					.bandwidth = &no_limit,
					.patience_ns = RAW_LIMIT_MS * CLOCK_NS_PER_MS,
					.find = find,
					.arg = side};
	if (replica_new(&config, &side->replica))
		raw_die("the replica", ENOMEM);
	replica_epoch(side->replica, job, EPOCH);
	while (!net_is_up(side->daemon.peers.net, !self))
		turn(side);
}

static void side_close(struct side *side)
{
	net_free(side->daemon.peers.net);
	pool_free(side->daemon.runtime.pool);
	replica_free(side->replica);
	memory_put(side->mem);
	roster_free(side->daemon.peers.roster);
}

/* What it has in slot 0 comes from raw_from, with the digests of a snapshot. */
static void holder(int out)
{
	struct side side;
	side_open(&side, 1);
	memcpy(memory_slot(side.mem, 0), raw_from, raw_size);
	memory_digest(side.mem, 0, 0, side.mem->layout.nleaves, memory_leaves(side.mem, 0));
	side.held = id;
	raw_tell(out, &(struct raw_hello){.address.len = 0}, raw_from);
	for (;;)
		turn(&side);
}

static void fetched(void *arg, const struct replica_fetched *done)
{
	struct side *side = arg;
	side->done = true;
	side->rc = done->rc;
}

static void fetch(struct side *side)
{
	struct replica_fetch what = {
		.job = job, .epoch = EPOCH, .id = id, .from = 1, .mem = side->mem, .done = fetched, .arg = side};
	side->done = false;
	if (replica_fetch(side->replica, &what))
		raw_die("replica_fetch", ENOMEM);
	while (!side->done)
		turn(side);
	if (side->rc)
		raw_die("a fetch", side->rc);
}

static double run(void)
{
	int in;
	struct side side;
	pid_t pid = raw_start(holder, &in);
	side_open(&side, 0);
	raw_hear(in);
	fetch(&side); /* connects, and touches the slot */
	memset(memory_slot(side.mem, 0), 0, raw_size);
	raw_begin();
	fetch(&side);
	double speed = raw_speed(raw_size);
	raw_end(pid, in);
	raw_compare("the fetch", memory_slot(side.mem, 0), raw_size);
	side_close(&side);
	return speed;
}

int main(int argc, char **argv)
{
	return raw_main(
		argc, argv,
		&(struct raw_bench){
			.program = "bench_fetch", .what = "fetch", .reads = true, .verified = true, .run = run});
}
