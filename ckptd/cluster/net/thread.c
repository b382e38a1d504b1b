/* The net's own thread: drives links, lanes and the rail, runs what the loop has left, keeps the time. */
#include "cluster/net/engine.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
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

void net_refuse(struct net *net)
{
	LOCK_SCOPE(&net->lock);
	net->counts.refused++;
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

void net_watch(struct net *net, struct link *l)
{
	struct epoll_event event = {.events = link_wants(l), .data.ptr = l};
	if (l->events != event.events)
		epoll_ctl(net->epoll,
			  !l->events     ? EPOLL_CTL_ADD
			  : event.events ? EPOLL_CTL_MOD
					 : EPOLL_CTL_DEL,
			  l->fd, &event);
	l->events = event.events;
}

void net_bury(struct net *net, struct link *l)
{
	if (!l)
		return;
	if (l->events)
		epoll_ctl(net->epoll, EPOLL_CTL_DEL, l->fd, NULL);
	link_close(l);
	list_remove(&l->list);
	list_push(&net->buried, &l->list);
}

static void free_buried(struct net *net)
{
	for (struct list *node; (node = list_pop(&net->buried));)
		link_free(list_entry(node, struct link, list));
}

static void link_ready(struct net *net, struct link *l)
{
	if (l->state == LINK_OVER)
		return; /* since this turn began */
	if (l->peer)
		peer_ready(l->peer, l);
	else
		door_ready(net, l);
}

void net_read_again(struct net *net, struct link *l)
{
	list_remove(&l->list);
	list_push(&net->eager, &l->list);
}

static bool read_eager(struct net *net)
{
	struct list round;
	bool any = false;
	list_init(&round);
	for (struct list *node; (node = list_pop(&net->eager));)
		list_push(&round, node);
	for (struct list *node; (node = list_pop(&round)); any = true)
		link_ready(net, list_entry(node, struct link, list));
	return any;
}

static void happened(struct net *net, const struct epoll_event *event)
{
	uint64_t count;
	if (event->data.ptr == &net->door) {
		door_answer(net);
	} else if (event->data.ptr == &net->wake) {
		ssize_t ignored = read(net->wake, &count, sizeof(count));
		(void)ignored;
	} else {
		link_ready(net, event->data.ptr);
	}
}

/* Waits for that long until there is something. */
static bool read_links(struct net *net, int ms)
{
	struct epoll_event events[READ_BATCH];
	bool eager = read_eager(net);
	int n = epoll_wait(net->epoll, events, READ_BATCH, eager ? 0 : ms);
	for (int i = 0; i < n; i++)
		happened(net, &events[i]);
	return eager || n > 0;
}

static bool watch_all(struct net *net)
{
	struct {
		int fd;
		void *tag;
	} const own[] = {{net->door, &net->door}, {net->wake, &net->wake}};
	bool ok = true;
	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = own[i].tag};
		ok &= !epoll_ctl(net->epoll, EPOLL_CTL_ADD, own[i].fd, &event);
	}
	return ok;
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
		post_push(p);
		if (copy_push(p) && p->id) { /* without a session the next tick tries again */
			net_busy(p);
			waiting = true;
		}
		if (p->id && net->way->push)
			net->way->push(p);
	}
	return waiting;
}

void net_look_at(struct peer *p, uint64_t when)
{
	if (list_empty(&p->looks))
		list_push(&p->net->looks, &p->looks);
	p->net->next_tick = min_u64(p->net->next_tick, when);
}

void net_look_soon(struct peer *p)
{
	net_look_at(p, clock_deadline(TICK_MS * CLOCK_NS_PER_MS));
}

/* Where nothing is under way that is late, but a rail has to be looked at again and again. */
static uint64_t latest(const struct net *net, uint64_t now)
{
	return now + (net->way == &rail_way ? TICK_MS : REST_MS) * CLOCK_NS_PER_MS;
}

/* When the next tick is. A peer that nothing is to be done for goes out of the list. */
static void plan(struct net *net, uint64_t now)
{
	uint64_t next = min_u64(latest(net, now), door_due(net));
	list_for_safe(node, &net->looks) {
		uint64_t due = peer_due(list_entry(node, struct peer, looks), now);
		if (due == LIVENESS_NEVER)
			list_remove(node);
		next = min_u64(next, due);
	}
	net->next_tick = max_u64(next, now + TICK_MS * CLOCK_NS_PER_MS);
	net->answered = false;
}

/* The thread is awake. What is due in a moment is not waited for: that costs another wake-up, and one in the node that is asked. */
static bool is_due(const struct net *net, uint64_t now)
{
	bool rested = now >= net->last_tick + TICK_MS * CLOCK_NS_PER_MS;
	return now + (rested ? EARLY_MS * CLOCK_NS_PER_MS : 0) >= net->next_tick;
}

static void tick(struct net *net)
{
	uint64_t now = clock_now();
	if (!is_due(net, now))
		return;
	net->last_tick = now;
	net->look = true;
	attend_neighbours(net, now);
	list_for_safe(node, &net->looks)
		peer_tick(list_entry(node, struct peer, looks), now);
	door_tick(net, now);
	plan(net, now);
}

/* The rail's descriptors may be readable when there is nothing to do, but for as long as it is idle. */
static void wait_for_more(struct net *net, int ms)
{
	struct pollfd fds[] = {{.fd = net->epoll, .events = POLLIN},
			       {.fd = net->copies.fd, .events = POLLIN},
			       {.fd = net->copies.event_fd, .events = POLLIN}};
	if (net->way != &rail_way) {
		read_links(net, ms);
		net->read = true;
		return;
	}
	bool idle = rail_idle(&net->copies);
	net->look |= !idle;
	if (!idle || !list_empty(&net->eager) || poll(fds, 3, ms) <= 0)
		return;
	if (fds[1].revents)
		net->awake_until = clock_deadline(AWAKE_MS * CLOCK_NS_PER_MS);
	net->look |= fds[2].revents != 0;
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

/* What the loop wants of all peers. */
static void take_wishes(struct net *net)
{
	pthread_mutex_lock(&net->lock);
	struct credentials *renewed = net->renewed;
	bool ask = net->ask_clocks;
	net->renewed = NULL;
	net->ask_clocks = false;
	pthread_mutex_unlock(&net->lock);
	if (ask)
		clocks_ask(net);
	if (!renewed)
		return;
	credentials_free(net->credentials);
	net->credentials = renewed;
}

static void turn(struct net *net)
{
	take_wishes(net);
	bool did = run_work(net);
	did |= !net->read && read_links(net, 0);
	net->read = false;
	did |= rail_look(net);
	tick(net);
	bool waiting = push_busy(net); /* what the tick asks, too */
	free_buried(net);
	if (did || list_empty(&net->busy) == waiting)
		return;
	if (net->answered)
		plan(net, clock_now());
	if (clock_now() < net->awake_until)
		stay_awake(net);
	else
		wait_for_more(net, waiting ? RETRY_MS : clock_ms_until(net->next_tick));
}

static bool any_session(const struct net *net)
{
	for (unsigned i = 0; i < net->known->n; i++)
		if (net->peers[i].link)
			return true;
	return false;
}

/* Who hears it need not wait for our silence, and closes the link: until then what is on its way to it could be lost with ours. */
static void say_goodbye(struct net *net)
{
	uint64_t deadline = clock_deadline(GOODBYE_MS * CLOCK_NS_PER_MS);
	run_work(net);
	for (unsigned i = 0; i < net->known->n; i++)
		if (net->peers[i].link)
			post_small(&net->peers[i], FRAME_BYE, 0);
	while (any_session(net) && clock_now() < deadline) {
		push_busy(net);
		wait_for_more(net, RETRY_MS);
		read_links(net, 0);
		rail_look(net);
	}
	for (unsigned i = 0; i < net->known->n; i++)
		if (!peer_is_self(&net->peers[i]))
			peer_end(&net->peers[i], -ESHUTDOWN);
	run_work(net);
	free_buried(net);
}

void *net_thread(void *arg)
{
	struct net *net = arg;
	/* Not a batch thread, as the loop's is: on a busy machine its heartbeats would be late, and others take us for dead. */
	(void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	for (unsigned i = 0; i < net->known->n; i++)
		if (!peer_is_self(&net->peers[i]))
			net_look_at(&net->peers[i], 0);
	if (!watch_all(net))
		log_error("the net cannot watch its descriptors: %s", err_name(errno));
	while (!must_stop(net))
		turn(net);
	say_goodbye(net);
	return NULL;
}
