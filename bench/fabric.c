/* bench_fabric [--mib N] [--rounds N] [--sealed|--fabric]: replication from one process's memory into another's over tcp on loopback, by the net of ckptd and by a
 * bare loop of libfabric writes on the same provider, in turns (shared/raw.h). Both copy a memfd whose pages have been touched into another.
 * Every copy is compared afterwards.
 *
 *	replicate  one net_op of the whole, from net_submit() to its `done`              floor 0.9 of raw
 *	raw        fi_writemsg(FI_DELIVERY_COMPLETE), from the first to the last completion */
#include "base/clock.h"
#include "shared/raw.h"

#include <poll.h>
#include <unistd.h>

static void ignore_node(void *arg, unsigned node)
{
	(void)arg;
	(void)node;
}

static void ignore_end(void *arg, unsigned node, int rc)
{
	(void)arg;
	(void)node;
	(void)rc;
}

static void ignore_message(void *arg, unsigned node, uint16_t type, const void *body, size_t len)
{
	(void)arg;
	(void)node;
	(void)type;
	(void)body;
	(void)len;
}

static struct net *open_net(unsigned self)
{
	static const struct net_events events = {.up = ignore_node, .down = ignore_end, .message = ignore_message};
	return raw_net(self, raw_roster(), &events);
}

static void turn(struct net *net)
{
	struct pollfd fd = {.fd = net_event_fd(net), .events = POLLIN};
	poll(&fd, 1, 100);
	net_poll(net);
}

static void target(int out)
{
	struct net *net = open_net(1);
	struct net_region *region;
	struct raw_hello hello = {.address.len = 0};
	while (!net_is_up(net, 0))
		turn(net);
	if (net_expose(net, 0, raw_to, raw_size, NET_WRITABLE, &region, NULL))
		_exit(1);
	hello.ticket = net_region_ticket(region);
	raw_tell(out, &hello, raw_to);
	for (;;)
		turn(net);
}

static void on_done(struct net_op *op)
{
	*(bool *)op->arg = true;
}

static void copy(struct net *net, struct net_ticket ticket, uint64_t len)
{
	bool done = false;
	struct net_op op = {.kind = NET_WRITE,
			    .node = 1,
			    .buf = raw_from,
			    .len = len,
			    .ticket = ticket,
			    .deadline = clock_deadline(RAW_LIMIT_MS * CLOCK_NS_PER_MS),
			    .done = on_done,
			    .arg = &done};
	net_submit(net, &op);
	while (!done)
		turn(net);
	if (op.result != (int64_t)len)
		raw_die("a copy", (int)op.result);
}

static double run(void)
{
	int in;
	pid_t pid = raw_start(target, &in);
	struct net *net = open_net(0);
	while (!net_is_up(net, 1))
		turn(net);
	struct raw_hello hello = raw_hear(in);
	copy(net, hello.ticket, 4096);
	raw_begin();
	copy(net, hello.ticket, raw_size);
	double speed = raw_speed(raw_size);
	raw_end(pid, in);
	net_free(net);
	raw_compare("the net", raw_to, raw_size);
	return speed;
}

int main(int argc, char **argv)
{
	return raw_main(argc, argv, &(struct raw_bench){.program = "bench_fabric", .what = "replicate", .run = run});
}
