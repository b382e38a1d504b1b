/* The simulated net keeps what cluster/net.h promises, whatever the faults: messages of a session arrive once, whole and in order, or it
 * ends; copies that are done are whole; memory that was withdrawn is written no more. Usage: sim_net [FIRST [COUNT]]. */
#include "base/clock.h"
#include "net_sim.h"
#include "rng.h"
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 4, SEEDS = 100, EVENTS = 3000, BYTES = 4096, TIMEOUT_MS = 200 };

struct region {
	struct net_region *net;
	uint64_t session;
	uint8_t bytes[BYTES], kept[BYTES]; /* kept: as they were when it was withdrawn */
	bool closed;
};

struct copy {
	struct net_op op;
	struct node *node;
	bool busy;
	uint8_t bytes[BYTES];
};

struct peer {
	bool up;
	bool dropped; /* by us: nothing is taken any more, until it is down */
	uint64_t next_out, next_in, session_in, last_session_in;
	struct region *region;    /* that the peer may reach */
	struct net_ticket ticket; /* of what we may reach */
	struct copy write, read;
};

struct node {
	unsigned id;
	struct net *net;
	struct peer peers[NODES];
};

struct note {
	uint64_t session, seq;
	struct net_ticket ticket;
	uint8_t fill[64];
};

static struct node nodes[NODES];
static struct region *closed[64]; /* that must not change */
static unsigned nclosed;
static uint64_t written, read_back, downs;

static void close_region(struct peer *p)
{
	struct region *r = p->region;
	if (!r)
		return;
	net_withdraw(r->net);
	SIM_CHECK(!net_sim_writable(r->bytes, BYTES), "a region is withdrawn and writable");
	memcpy(r->kept, r->bytes, BYTES);
	p->region = NULL;
	unsigned at = nclosed++ % 64;
	free(closed[at]);
	closed[at] = r;
}

static void check_closed(void)
{
	for (unsigned i = 0; i < 64 && i < nclosed; i++)
		SIM_CHECK(!memcmp(closed[i]->bytes, closed[i]->kept, BYTES), "withdrawn memory was written");
}

static void drop(struct node *n, unsigned to)
{
	n->peers[to].dropped = n->peers[to].up;
	net_drop(n->net, to, -EPROTO);
}

static void send_note(struct node *n, unsigned to)
{
	struct peer *p = &n->peers[to];
	struct note note = {.session = net_session(n->net, to), .seq = p->next_out};
	struct err err;
	memset(note.fill, (int)p->next_out, sizeof(note.fill));
	if (rng_chance(world_rng(), 20))
		close_region(p);
	if (!p->region && net_is_up(n->net, to)) {
		p->region = calloc(1, sizeof(*p->region));
		SIM_CHECK(p->region, "memory");
		int rc = net_expose(n->net, to, p->region->bytes, BYTES, NET_READABLE | NET_WRITABLE, &p->region->net,
				    &err);
		SIM_CHECK(!rc, "%s", err.text);
	}
	if (p->region)
		note.ticket = net_region_ticket(p->region->net);
	struct wbuf body = {.data = (uint8_t *)&note, .len = sizeof(note)};
	int rc = net_send(n->net, to, 7, &body);
	SIM_CHECK(rc == 0 || rc == -ENOBUFS || (rc == -ENOTCONN && (!p->up || p->dropped)), "net_send: %d", rc);
	SIM_CHECK(rc || !p->dropped, "a message is taken for a session that was dropped");
	p->next_out += !rc;
}

static void copy_done(struct net_op *op)
{
	struct copy *c = op->arg;
	c->busy = false;
	SIM_CHECK(op->result == (int64_t)op->len || op->result < 0, "result %ld", (long)op->result);
	/* The target has not been told to change it and writes of one peer do not overlap in time. */
	written += op->kind == NET_WRITE && op->result > 0;
	read_back += op->kind == NET_READ && op->result > 0;
}

static void start_copy(struct node *n, unsigned to, enum net_kind kind)
{
	struct peer *p = &n->peers[to];
	struct copy *c = kind == NET_WRITE ? &p->write : &p->read;
	if (c->busy)
		return;
	c->busy = true;
	uint64_t offset = rng_below(world_rng(), BYTES);
	c->op = (struct net_op){.kind = kind,
				.node = to,
				.buf = c->bytes,
				.len = rng_below(world_rng(), BYTES - offset + 1),
				.ticket = p->ticket,
				.offset = offset,
				.deadline = clock_now() + 2 * TIMEOUT_MS * CLOCK_NS_PER_MS,
				.done = copy_done,
				.arg = c};
	memset(c->bytes, (int)rng_below(world_rng(), 256), BYTES);
	net_submit(n->net, &c->op);
}

static void up(void *arg, unsigned from)
{
	struct peer *p = &((struct node *)arg)->peers[from];
	SIM_CHECK(!p->up, "up twice");
	p->up = true;
	p->dropped = false;
	p->next_in = p->next_out = p->session_in = 0;
	p->ticket = (struct net_ticket){0};
}

static void down(void *arg, unsigned from, int rc)
{
	struct peer *p = &((struct node *)arg)->peers[from];
	SIM_CHECK(p->up && rc < 0, "down with %d", rc);
	SIM_CHECK(!p->write.busy && !p->read.busy, "a copy outlives its session");
	SIM_CHECK(!p->region || !net_sim_writable(p->region->bytes, BYTES), "a region outlives its session");
	p->up = false;
	close_region(p);
	downs++;
}

static void message(void *arg, unsigned from, uint16_t type, const void *body, size_t len)
{
	struct peer *p = &((struct node *)arg)->peers[from];
	const struct note *note = body;
	SIM_CHECK(p->up && type == 7 && len == sizeof(*note), "a message before up, or damaged");
	SIM_CHECK(note->seq == p->next_in, "message %lu instead of %lu", (unsigned long)note->seq,
		  (unsigned long)p->next_in);
	SIM_CHECK(note->seq == 0 ? note->session > p->last_session_in : note->session == p->session_in,
		  "a message of another session");
	for (size_t i = 0; i < sizeof(note->fill); i++)
		SIM_CHECK(note->fill[i] == (uint8_t)note->seq, "a damaged message");
	p->next_in++;
	p->session_in = p->last_session_in = note->session;
	p->ticket = note->ticket;
}

static void start(unsigned i)
{
	struct err err;
	struct net_config config = {.self = i, .peer_timeout_ns = TIMEOUT_MS * CLOCK_NS_PER_MS};
	struct net_events events = {.up = up, .down = down, .message = message, .arg = &nodes[i]};
	nodes[i].id = i;
	SIM_CHECK(!net_new(&config, &events, &nodes[i].net, &err), "%s", err.text);
}

static void stop(unsigned i, bool killed)
{
	struct node *n = &nodes[i];
	if (killed)
		net_sim_kill(i);
	net_free(n->net);
	for (unsigned k = 0; k < NODES; k++) {
		SIM_CHECK(!n->peers[k].write.busy && !n->peers[k].read.busy, "a copy outlives its net");
		close_region(&n->peers[k]);
		n->peers[k].up = false;
	}
	n->net = NULL;
}

static void event(bool faults)
{
	unsigned a = (unsigned)rng_below(world_rng(), NODES),
		 b = (a + 1 + (unsigned)rng_below(world_rng(), NODES - 1)) % NODES;
	uint64_t what = rng_below(world_rng(), 1000);
	clock_advance(rng_below(world_rng(), CLOCK_NS_PER_MS));
	if (!nodes[a].net)
		start(a);
	else if (what < 500)
		net_poll(nodes[a].net);
	else if (what < 700)
		send_note(&nodes[a], b);
	else if (what < 900)
		start_copy(&nodes[a], b, what % 2 ? NET_WRITE : NET_READ);
	else if (what < 905)
		drop(&nodes[a], b);
	else if (faults && what < 915)
		net_sim_cut(a, b, rng_chance(world_rng(), 30));
	else if (faults && what < 917)
		net_sim_slow(a, b, rng_chance(world_rng(), 50) << 16);
	else if (faults && what < 920)
		stop(a, rng_chance(world_rng(), 50));
	check_closed();
}

static void run(uint64_t seed)
{
	world_reset(seed);
	memset(nodes, 0, sizeof(nodes));
	net_sim_faults(&(struct net_faults){.delay_ns = rng_below(world_rng(), 20 * CLOCK_NS_PER_MS),
					    .drop = seed % 3 ? 0 : 2,
					    .refuse = seed % 4});
	for (uint64_t i = 0; i < EVENTS; i++) {
		sim_context(seed, i);
		event(seed % 5 != 0);
	}
	for (unsigned i = 0; i < NODES; i++)
		if (nodes[i].net)
			stop(i, false);
	check_closed();
	for (unsigned i = 0; i < 64; i++) {
		free(closed[i]);
		closed[i] = NULL;
	}
	nclosed = 0;
}

/* Without faults everybody meets, and what is written stands there when the copy is done. */
static void quiet(uint64_t seed)
{
	world_reset(seed);
	memset(nodes, 0, sizeof(nodes));
	for (unsigned i = 0; i < 2; i++)
		start(i);
	struct node *a = &nodes[0], *b = &nodes[1];
	for (int i = 0; i < 1000 && !a->peers[1].ticket.key; i++) {
		clock_advance(CLOCK_NS_PER_MS);
		if (b->peers[0].up && !b->peers[0].region)
			send_note(b, 0);
		net_poll(a->net);
		net_poll(b->net);
	}
	SIM_CHECK(a->peers[1].ticket.key, "the nodes do not meet");
	uint64_t before = written;
	start_copy(a, 1, NET_WRITE);
	for (int i = 0; i < 1000 && a->peers[1].write.busy; i++) {
		clock_advance(CLOCK_NS_PER_MS);
		net_poll(b->net);
		net_poll(a->net);
	}
	struct net_op *op = &a->peers[1].write.op;
	SIM_CHECK(!op->len || written == before + 1, "the copy failed: %ld", (long)op->result);
	SIM_CHECK(!memcmp(b->peers[0].region->bytes + op->offset, op->buf, op->len), "the bytes are not there");
	for (unsigned i = 0; i < 2; i++)
		stop(i, false);
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : SEEDS;
	struct net_sim_counts sum = {0};
	for (uint64_t seed = first; seed < first + count; seed++) {
		run(seed);
		sum.messages += net_sim_counts()->messages;
		sum.late += net_sim_counts()->late;
		sum.refused += net_sim_counts()->refused;
		sum.lost += net_sim_counts()->lost;
		quiet(seed);
	}
	world_end();
	printf("%" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " messages, %" PRIu64 " sessions ended, %" PRIu64
	       " writes, %" PRIu64 " reads, %" PRIu64 " parts late, %" PRIu64 " refused, %" PRIu64 " lost\n",
	       count, first, sum.messages, downs, written, read_back, sum.late, sum.refused, sum.lost);
	if (count >= 50 &&
	    (!sum.messages || !downs || !written || !read_back || !sum.late || !sum.refused || !sum.lost)) {
		printf("some kind of event never happened\n");
		return 1;
	}
	return 0;
}
