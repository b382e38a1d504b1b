/* The net's own thread: drives both rails, runs what the loop has left, keeps the time. */
#include "cluster/net/engine.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum { READ_BATCH = 32 };

static void ring(int event)
{
	uint64_t one = 1;
	ssize_t ignored = write(event, &one, sizeof(one)); /* full means: already readable */
	(void)ignored;
}

void net_wake(struct peer *p)
{
	if (list_empty(&p->work))
		list_push(&p->net->work, &p->work);
	ring(p->net->wake);
}

void net_tell(struct peer *p)
{
	if (list_empty(&p->ready))
		list_push(&p->net->ready, &p->ready);
	ring(p->net->event);
}

/* ---- what libfabric has done ------------------------------------------------------------------------------------- */

static int receive(struct net *net, struct buffer *buffer)
{
	ssize_t rc = fi_recv(net->messages.ep, buffer->frame.bytes, sizeof(buffer->frame.bytes), NULL, FI_ADDR_UNSPEC,
			     buffer);
	return rc ? (int)rc : 0;
}

int net_post_receives(struct net *net)
{
	net->receives = calloc(RECEIVE_DEPTH, sizeof(*net->receives));
	int rc = net->receives ? 0 : -ENOMEM;
	for (unsigned i = 0; !rc && i < RECEIVE_DEPTH; i++)
		rc = receive(net, &net->receives[i]);
	return rc;
}

static bool read_messages(struct net *net)
{
	struct rail_done done[READ_BATCH];
	int n = rail_read(&net->messages, done, READ_BATCH);
	for (int i = 0; i < n; i++) {
		struct buffer *buffer = done[i].context;
		if (!buffer)
			continue;
		if (buffer->peer) {
			post_done(net, buffer, done[i].rc);
			continue;
		}
		if (!done[i].rc)
			peer_frame(net, buffer->frame.bytes, done[i].len);
		receive(net, buffer);
	}
	return n > 0;
}

static bool read_copies(struct net *net)
{
	struct rail_done done[READ_BATCH];
	int n = rail_read(&net->copies, done, READ_BATCH);
	for (int i = 0; i < n; i++)
		if (done[i].context)
			copy_done(done[i].context, done[i].rc);
	return n > 0;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static bool run_work(struct net *net)
{
	bool any = false;
	for (;; any = true) {
		pthread_mutex_lock(&net->lock);
		struct list *node = list_pop(&net->work);
		pthread_mutex_unlock(&net->lock);
		if (!node)
			return any;
		peer_take_work(list_entry(node, struct peer, work));
	}
}

/* Whether some wait for nothing but libfabric. */
static bool push_busy(struct net *net)
{
	struct list round;
	bool waiting = false;
	list_init(&round);
	for (struct list *node; (node = list_pop(&net->busy));)
		list_push(&round, node);
	for (struct list *node; (node = list_pop(&round));) {
		struct peer *p = list_entry(node, struct peer, busy);
		bool frames = post_push(p), copies = copy_push(p);
		/* Without a session the next tick tries again. */
		if (p->id && (frames || copies)) {
			net_busy(p);
			waiting = true;
		}
	}
	return waiting;
}

static void tick(struct net *net)
{
	uint64_t now = clock_now();
	if (now < net->next_tick)
		return;
	net->next_tick = now + TICK_MS * CLOCK_NS_PER_MS;
	for (unsigned i = 0; i < net->roster->n; i++)
		if (!peer_is_self(&net->peers[i]))
			peer_tick(&net->peers[i], now);
}

static void wait_for_more(struct net *net, bool waiting)
{
	uint64_t count;
	struct pollfd fds[] = {{.fd = net->messages.fd, .events = POLLIN},
			       {.fd = net->copies.fd, .events = POLLIN},
			       {.fd = net->wake, .events = POLLIN}};
	int ms = waiting ? RETRY_MS : clock_ms_until(net->next_tick);
	if (!rail_idle(&net->messages) || !rail_idle(&net->copies))
		return;
	if (poll(fds, 3, ms) <= 0)
		return;
	if (fds[1].revents)
		net->awake_until = clock_deadline(AWAKE_MS * CLOCK_NS_PER_MS);
	if (fds[2].revents) {
		ssize_t ignored = read(net->wake, &count, sizeof(count));
		(void)ignored;
	}
}

/* Between the parts of a copy it looks again for a while: to be woken costs the side that sends a good part of the time that a part takes.
 * Where somebody else wants the processor, it sleeps. */
static void stay_awake(struct net *net)
{
	uint64_t begun = clock_now();
	sched_yield();
	if (clock_now() - begun > AWAY_NS)
		net->awake_until = 0;
}

static bool must_stop(struct net *net)
{
	LOCK_SCOPE(&net->lock);
	return net->stopping;
}

static void turn(struct net *net)
{
	bool did = run_work(net);
	did |= read_messages(net);
	did |= read_copies(net);
	bool waiting = push_busy(net);
	tick(net);
	if (did || list_empty(&net->busy) == waiting)
		return;
	if (clock_now() < net->awake_until)
		stay_awake(net);
	else
		wait_for_more(net, waiting);
}

/* Who hears it need not wait for our silence. */
static void say_goodbye(struct net *net)
{
	uint64_t deadline = clock_deadline(GOODBYE_MS * CLOCK_NS_PER_MS);
	bool left = true;
	run_work(net);
	for (unsigned i = 0; i < net->roster->n; i++)
		if (net->peers[i].id)
			post_small(&net->peers[i], SESSION_BYE, 0);
	while (left && clock_now() < deadline) {
		left = push_busy(net);
		read_messages(net);
		read_copies(net);
		for (unsigned i = 0; i < net->roster->n; i++)
			left |= net->peers[i].id && (net->peers[i].sending || net->peers[i].nsmalls);
	}
	for (unsigned i = 0; i < net->roster->n; i++)
		if (!peer_is_self(&net->peers[i]))
			peer_end(&net->peers[i], -ESHUTDOWN, true);
	run_work(net);
}

void *net_thread(void *arg)
{
	struct net *net = arg;
	/* Not a batch thread, as the loop's is: on a busy machine its heartbeats would be late, and others take us for dead. */
	(void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	while (!must_stop(net))
		turn(net);
	say_goodbye(net);
	/* What was cut is reported as failed: its memory is freed. */
	while (read_messages(net) || read_copies(net))
		;
	return NULL;
}
