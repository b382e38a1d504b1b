/* The door: who connects, until it has proved to be a node of the cluster and said so. A stranger costs a descriptor and some memory, for a
 * bounded time. Where there are too many, those of the address that has the most go first, of these who has proved the least, and the
 * oldest: no address keeps another one out, and bytes without the cluster's key none with it. */
#include "cluster/net/engine.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/link/first_flight.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	STRANGERS_MIN = 128, /* and one for each node */
	STRANGERS_EACH = 64, /* of one address */
	ANSWER_BATCH = 32,
	QUEUE = 4096, /* calls that wait to be answered: a coordinator that takes over is called by all nodes at once */
};

int door_open(struct net *net, struct err *err)
{
	const union address *at = &net->peers[net->self_index].where;
	int one = 1;
	net->door = socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (net->door < 0)
		return err_set(err, -errno, "no socket: %s", err_name(errno));
	setsockopt(net->door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(net->door, &at->any, address_size(at)) < 0 || listen(net->door, QUEUE) < 0)
		return err_set(err, -errno, "cannot listen there: %s", err_name(errno));
	return 0;
}

/* The node that says it is the caller, which it need not have proved; NULL: none is known. */
static struct peer *claimed_peer(struct net *net, const struct link *l)
{
	int node = l->ssl ? credentials_claimed(l->ssl) : -ENOENT;
	return node < 0 || (unsigned)node == net->self_index ? NULL : &net->peers[node];
}

static void forget(struct net *net, struct link *l)
{
	struct peer *p = claimed_peer(net, l);
	list_remove(&l->list);
	net->nstrangers--;
	list_remove(&l->waits);
	if (!l->answers)
		return;
	l->answers = false;
	p->answered--;
	if (!p->id)
		net_look_soon(p);
}

static void let_go(struct net *net, struct link *l)
{
	forget(net, l);
	net_bury(net, l);
}

static void send_away(struct net *net, struct link *l)
{
	log_debug("a stranger is sent away: %s", l->why ? l->why : "it does not prove who it is");
	net_refuse(net);
	let_go(net, l);
}

void door_close(struct net *net)
{
	for (struct list *node; (node = list_pop(&net->strangers));)
		link_free(list_entry(node, struct link, list));
	if (net->door >= 0)
		close(net->door);
}

/* ---- too many ---------------------------------------------------------------------------------------------------- */

/* Of IPv6 one site has as many as it likes: its first 64 bits count. */
static bool same_address(const union address *a, const union address *b)
{
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, 8);
}

static unsigned count_from(const struct net *net, const union address *from)
{
	unsigned n = 0;
	list_for(node, &net->strangers)
		n += same_address(&list_entry(node, struct link, list)->from, from);
	return n;
}

static int standing(const struct link *l)
{
	return l->state == LINK_STRANGER ? 0 : credentials_known(l->ssl) ? 2 : 1;
}

/* They stand in the order in which they came. */
static struct link *least(const struct net *net, const union address *from)
{
	struct link *found = NULL;
	list_for(node, &net->strangers) {
		struct link *l = list_entry(node, struct link, list);
		if (same_address(&l->from, from) && (!found || standing(l) < standing(found)))
			found = l;
	}
	return found;
}

static const union address *most_frequent(const struct net *net)
{
	const union address *found = NULL;
	unsigned most = 0;
	list_for(node, &net->strangers) {
		const union address *from = &list_entry(node, struct link, list)->from;
		unsigned n = count_from(net, from);
		if (n > most) {
			most = n;
			found = from;
		}
	}
	return found;
}

static void make_room(struct net *net, const union address *from)
{
	if (count_from(net, from) >= STRANGERS_EACH)
		send_away(net, least(net, from));
	else if (net->nstrangers >= STRANGERS_MIN + net->known->n)
		send_away(net, least(net, most_frequent(net)));
}

/* ---- who comes --------------------------------------------------------------------------------------------------- */

static void welcome(struct net *net, int fd, const union address *from)
{
	make_room(net, from);
	struct link *l = link_accept(fd, from);
	if (!l)
		return;
	list_push(&net->strangers, &l->list);
	net->nstrangers++;
	net_watch(net, l);
}

/* Without a descriptor for another one the first that is known least makes way: else its place in the queue would wake us without end. */
static void make_way(struct net *net)
{
	if (net->nstrangers)
		send_away(net, least(net, most_frequent(net)));
}

void door_answer(struct net *net)
{
	for (unsigned i = 0; i < ANSWER_BATCH; i++) {
		union address from;
		socklen_t len = sizeof(from);
		int fd = accept4(net->door, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			welcome(net, fd, &from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			make_way(net);
		return;
	}
}

/* The first frame is a hello, or the last. */
static void hear(struct net *net, struct link *l)
{
	struct frame frame;
	struct hello hello;
	int rc = link_read(l, &frame);
	if (!rc)
		return;
	if (rc == -ECONNRESET) { /* it has called off its call */
		let_go(net, l);
		return;
	}
	if (rc > 0 && frame.kind == FRAME_LANE) {
		forget(net, l);
		if (!answering_take(net, l, &frame))
			net_bury(net, l);
		return;
	}
	struct peer *p = rc > 0 && frame.kind == FRAME_HELLO ? peer_of_hello(net, l, &frame, &hello) : NULL;
	if (!p) {
		send_away(net, l);
		return;
	}
	forget(net, l);
	if (!peer_hello(p, l, &hello))
		net_bury(net, l);
}

/* ---- both ends call ---------------------------------------------------------------------------------------------- */

/* Where both ends call, as all nodes do with a coordinator that takes over, they need one handshake. A call that comes while ours counts and is
 * under way waits before anything is computed for it: it will be called off, or ours comes to nothing. And a node whose call is being answered
 * is not called (call_due()). */
static bool wait_for_ours(struct net *net, struct link *l)
{
	struct peer *p = claimed_peer(net, l);
	if (!p || !call_counts(p))
		return false;
	list_push(&p->waiting, &l->waits);
	return true;
}

static void note_answer(struct net *net, struct link *l)
{
	struct peer *p = claimed_peer(net, l);
	if (!p || l->answers || !credentials_known(l->ssl))
		return;
	l->answers = true;
	p->answered++;
}

static int shake(struct net *net, struct link *l)
{
	int rc = link_shake(l, net->credentials);
	if (l->met && wait_for_ours(net, l))
		return 0;
	if (l->met)
		rc = link_shake(l, net->credentials);
	if (rc >= 0)
		note_answer(net, l);
	return rc;
}

/* It has waited for us until now: its time begins, as that of the last who has come. */
static void answer_now(struct net *net, struct link *l)
{
	l->since = clock_now();
	list_remove(&l->list);
	list_push(&net->strangers, &l->list);
	l->stuck = true; /* its first message has been read: it is ready when it can be written */
	net_watch(net, l);
}

void door_call_ended(struct peer *p)
{
	for (struct list *node; (node = list_pop(&p->waiting));) {
		struct link *l = list_entry(node, struct link, waits);
		if (first_flight_is_cut(l->fd))
			let_go(p->net, l);
		else
			answer_now(p->net, l);
	}
}

void door_ready(struct net *net, struct link *l)
{
	int rc = l->state == LINK_OPEN ? 1 : shake(net, l);
	if (rc == -ECONNRESET)
		let_go(net, l);
	else if (rc < 0)
		send_away(net, l);
	else if (rc)
		hear(net, l);
	if (l->state != LINK_OVER)
		net_watch(net, l);
}

static uint64_t patience_ends(const struct link *l)
{
	return l->since + STRANGER_MS * CLOCK_NS_PER_MS;
}

void door_tick(struct net *net, uint64_t now)
{
	list_for_safe(node, &net->strangers) {
		struct link *l = list_entry(node, struct link, list);
		if (list_empty(&l->waits) && now >= patience_ends(l))
			send_away(net, l);
	}
}

/* They stand in the order in which they came. */
uint64_t door_due(const struct net *net)
{
	list_for(node, &net->strangers) {
		const struct link *l = list_entry(node, struct link, list);
		if (list_empty(&l->waits))
			return patience_ends(l);
	}
	return LIVENESS_NEVER;
}
