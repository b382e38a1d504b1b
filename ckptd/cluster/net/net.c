/* The loop's side: opening, sending, submitting, and what has happened. */
#include "cluster/link/vault.h"
#include "cluster/net/engine.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <netdb.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Of an open roster hosts are addresses: nothing is asked, and nothing waits. */
static int look_up(const struct roster *roster, unsigned i, int family, union address *out, struct err *err)
{
	const struct roster_node *node = &roster->nodes[i];
	struct addrinfo hints = {.ai_family = family,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICSERV | (roster->open ? AI_NUMERICHOST : 0)},
			*found;
	char port[8];
	snprintf(port, sizeof(port), "%u", node->port);
	int rc = getaddrinfo(node->host, port, &hints, &found);
	if (rc)
		return err_set(err, -EINVAL, "cannot look up %s, the host of node %s%s: %s", node->host, node->name,
			       family == AF_INET6  ? " (with IPv6, as this node)"
			       : family == AF_INET ? " (with IPv4, as this node)"
						   : "",
			       gai_strerror(rc));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

/* Ours first: all others must be of its family. */
static int look_up_all(struct net *net, struct err *err)
{
	struct peer *own = &net->peers[net->self_index];
	const struct roster_node *nodes = net->roster->nodes;
	int rc = look_up(net->roster, net->self_index, AF_UNSPEC, &own->where, err);
	for (unsigned i = 0; !rc && i < net->roster->n; i++) {
		if (i == net->self_index || !roster_has(net->roster, i))
			continue;
		rc = look_up(net->roster, i, own->where.any.sa_family, &net->peers[i].where, err);
		if (!rc && address_is_loopback(&own->where) && !address_is_loopback(&net->peers[i].where))
			rc = err_set(err, -EINVAL,
				     "%s, the host of this node %s, is an address of loopback (see /etc/hosts), which "
				     "node %s cannot reach: name another in the roster",
				     nodes[net->self_index].host, nodes[net->self_index].name, nodes[i].name);
	}
	return rc;
}

static int digest_roster(const struct roster *roster, uint8_t digest[HELLO_ROSTER])
{
	static const char open[] = "in the registry\n";
	EVP_MD_CTX *state = EVP_MD_CTX_new();
	bool ok = state && EVP_DigestInit_ex(state, EVP_sha256(), NULL);
	if (ok && roster->open)
		ok = EVP_DigestUpdate(state, open, sizeof(open));
	for (unsigned i = 0; ok && !roster->open && i < roster->n; i++) {
		char text[1024];
		const struct roster_node *n = &roster->nodes[i];
		int len = snprintf(text, sizeof(text), "%s %s %u %s %s\n", n->name, n->host, n->port, n->rack,
				   n->switch_name);
		ok = EVP_DigestUpdate(state, text, (size_t)len);
	}
	ok = ok && EVP_DigestFinal_ex(state, digest, NULL);
	EVP_MD_CTX_free(state);
	return ok ? 0 : -ENOMEM;
}

static int open_endpoints(struct net *net, const char *provider, struct err *err)
{
	const struct roster_node *self = &net->roster->nodes[net->self_index];
	int rc = door_open(net, err);
	if (!rc)
		rc = net->way->open(net, provider, err);
	return rc ? err_prefix(err, rc, "node %s at %s:%u", self->name, self->host, self->port) : 0;
}

static int open_identity(struct net *net, const struct net_config *config, struct err *err)
{
	struct hello *self = &net->self;
	vault_open(); /* before the first number is drawn */
	self->protocol = HELLO_PROTOCOL;
	self->way = (uint8_t)config->copies;
	snprintf(self->registry, sizeof(self->registry), "%s", config->registry ? config->registry : "");
	snprintf(self->from, sizeof(self->from), "%s", config->roster->nodes[config->self].name);
	self->incarnation = config->incarnation;
	if (!self->incarnation && RAND_bytes((unsigned char *)&self->incarnation, sizeof(self->incarnation)) != 1)
		return err_set(err, -EIO, "OpenSSL has no random numbers");
	int rc = digest_roster(config->roster, self->roster);
	if (rc)
		return err_set(err, rc, "cannot digest the roster: %s", err_name(rc));
	return credentials_new(&config->credentials, net->known, config->self, &net->credentials, err);
}

/* Signals are the loop's. */
static int start_thread(struct net *net)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = -pthread_create(&net->thread, NULL, net_thread, net);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	net->running = !rc;
	return rc;
}

/* Those that the roster has now. Of later ones the thread is told what they are. */
static void begin_peers(struct net *net, bool later)
{
	for (; net->begun < net->roster->n; net->begun++) {
		peer_init(&net->peers[net->begun], net, net->begun);
		if (later)
			net->peers[net->begun].known = false;
	}
}

static int init(struct net *net, const struct net_config *config, struct err *err)
{
	struct list *const lists[] = {&net->work,      &net->ready, &net->regions, &net->busy,
				      &net->strangers, &net->eager, &net->buried,  &net->looks};
	pthread_condattr_t monotonic;
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		list_init(lists[i]);
	pthread_mutex_init(&net->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&net->released, &monotonic);
	pthread_condattr_destroy(&monotonic);
	net->roster = config->roster;
	net->self_index = config->self;
	net->timeout = config->peer_timeout_ns;
	net->idle = config->idle_ns ? config->idle_ns : PARKING_IDLE_S * CLOCK_NS_PER_S;
	net->way = config->copies == NET_COPIES_FABRIC ? &rail_way : &lane_way;
	net->next_session = clock_wall(); /* no number comes twice, not even in another process */
	for (unsigned i = 0; i < NEIGHBOURS; i++)
		net->neighbours[i] = NEIGHBOUR_NONE;
	net->copies.fd = net->copies.event_fd = net->door = -1;
	net->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	net->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	net->epoll = epoll_create1(EPOLL_CLOEXEC);
	net->known = roster_copy(net->roster);
	net->peers = calloc(net->roster->max, sizeof(*net->peers));
	if (net->peers)
		begin_peers(net, false);
	if (net->event < 0 || net->wake < 0 || net->epoll < 0)
		return err_set(err, -EMFILE, "no descriptors for the net");
	return net->peers && net->known ? 0 : err_set(err, -ENOMEM, "no memory for %u nodes", net->roster->n);
}

int net_new(const struct net_config *config, const struct net_events *events, struct net **out, struct err *err)
{
	struct net *net = calloc(1, sizeof(*net));
	if (!net)
		return err_set(err, -ENOMEM, "no memory for the net");
	net->events = *events;
	int rc = init(net, config, err);
	if (!rc)
		rc = open_identity(net, config, err);
	if (!rc)
		rc = look_up_all(net, err);
	if (!rc)
		rc = open_endpoints(net, config->provider, err);
	if (!rc && (rc = start_thread(net)))
		err_set(err, rc, "cannot start the thread of the net: %s", err_name(rc));
	if (rc)
		net_free(net);
	else
		*out = net;
	return rc;
}

int net_member(struct net *net, unsigned node, struct err *err)
{
	struct change *change = calloc(1, sizeof(*change));
	int family = net->peers[net->self_index].where.any.sa_family;
	if (!change)
		return err_set(err, -ENOMEM, "no memory for another node");
	begin_peers(net, true);
	change->node = net->roster->nodes[node];
	int rc = change->node.port ? look_up(net->roster, node, family, &change->where, err) : 0;
	if (rc)
		change->node.port = 0;
	struct peer *p = &net->peers[node];
	LOCK_SCOPE(&net->lock);
	free(p->change);
	p->change = change;
	net_wake(p);
	return rc;
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

static void stop_thread(struct net *net)
{
	if (!net->running)
		return;
	pthread_mutex_lock(&net->lock);
	net->stopping = true;
	pthread_mutex_unlock(&net->lock);
	eventfd_write(net->wake, 1);
	pthread_join(net->thread, NULL);
}

static void end_copies(struct list *ops)
{
	for (struct list *node; (node = list_pop(ops));) {
		struct net_op *op = list_entry(node, struct net_op, link);
		op->result = op->result ? op->result : -ESHUTDOWN;
		op->done(op);
	}
}

static void free_parts(struct net *net)
{
	for (unsigned i = 0; i < net->begun; i++)
		peer_free(&net->peers[i]);
	list_for(node, &net->regions)
		list_entry(node, struct net_region, link)->net = NULL;
	free(net->peers);
	free(net->locals);
}

void net_free(struct net *net)
{
	if (!net)
		return;
	stop_thread(net);
	for (unsigned i = 0; i < net->begun; i++) {
		net->peers[i].seen = 0;
		end_copies(&net->peers[i].ended);
		end_copies(&net->peers[i].fresh);
	}
	for (unsigned i = 0; i < net->nlocals; i++)
		net_unregister(net, (int)i + 1);
	net->way->end(net);
	door_close(net);
	free_parts(net);
	credentials_free(net->credentials);
	credentials_free(net->renewed);
	roster_free(net->known);
	if (net->event >= 0)
		close(net->event);
	if (net->wake >= 0)
		close(net->wake);
	if (net->epoll >= 0)
		close(net->epoll);
	pthread_cond_destroy(&net->released);
	pthread_mutex_destroy(&net->lock);
	free(net);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

int net_event_fd(struct net *net)
{
	return net->event;
}

static struct list *pop(struct net *net, struct list *from)
{
	LOCK_SCOPE(&net->lock);
	return list_pop(from);
}

static int run_copies(struct peer *p, struct list *from)
{
	int n = 0;
	for (struct list *node; (node = pop(p->net, from)); n++) {
		struct net_op *op = list_entry(node, struct net_op, link);
		op->done(op);
	}
	return n;
}

/* Copies that the thread has not seen. */
static void fail_fresh(struct peer *p)
{
	for (struct list *node; (node = pop(p->net, &p->fresh));) {
		struct net_op *op = list_entry(node, struct net_op, link);
		op->result = -ECONNRESET;
		op->done(op);
	}
}

static int run_clock(struct peer *p)
{
	pthread_mutex_lock(&p->net->lock);
	struct net_clock clock = p->clock;
	bool fresh = p->seen && p->clock_session == p->seen;
	if (fresh)
		p->clock_session = 0;
	pthread_mutex_unlock(&p->net->lock);
	if (fresh)
		p->net->events.clock(p->net->events.arg, p->node, &clock);
	return fresh;
}

static int run_peer(struct peer *p)
{
	struct net *net = p->net;
	pthread_mutex_lock(&net->lock);
	uint64_t session = p->session_now;
	int rc = p->rc;
	pthread_mutex_unlock(&net->lock);
	int n = run_copies(p, &p->ended) + messages_run(p);
	if (session == p->seen)
		return n + run_clock(p);
	if (p->seen) {
		p->seen = 0;
		wbuf_free(&p->whole);
		fail_fresh(p);
		net->events.down(net->events.arg, p->node, session ? -ECONNRESET : rc);
		n++;
	}
	if (session) {
		p->seen = session;
		net->events.up(net->events.arg, p->node);
		n += 1 + messages_run(p);
	}
	return n + run_clock(p);
}

int net_poll(struct net *net)
{
	uint64_t count;
	struct list round;
	int n = 0;
	ssize_t ignored = read(net->event, &count, sizeof(count));
	(void)ignored;
	list_init(&round);
	pthread_mutex_lock(&net->lock);
	for (struct list *node; (node = list_pop(&net->ready));)
		list_push(&round, node);
	pthread_mutex_unlock(&net->lock);
	for (struct list *node; (node = pop(net, &round));) {
		n += run_peer(list_entry(node, struct peer, ready));
		park_answer(list_entry(node, struct peer, ready));
	}
	return n;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

bool net_is_up(const struct net *net, unsigned node)
{
	return net->peers[node].seen;
}

bool net_is_open(const struct net *net, unsigned node)
{
	struct peer *p = &net->peers[node];
	LOCK_SCOPE(&p->net->lock);
	return p->seen && p->open;
}

void net_touch(struct net *net, unsigned node)
{
	LOCK_SCOPE(&net->lock);
	net_wake(&net->peers[node]);
}

uint64_t net_session(const struct net *net, unsigned node)
{
	return net->peers[node].seen;
}

uint64_t net_heard(const struct net *net, unsigned node)
{
	struct peer *p = &net->peers[node];
	LOCK_SCOPE(&p->net->lock);
	return p->heard_last;
}

void net_drop(struct net *net, unsigned node, int rc)
{
	struct peer *p = &net->peers[node];
	LOCK_SCOPE(&net->lock);
	p->drop = p->seen;
	p->drop_rc = rc;
	net_wake(p);
}

void net_submit(struct net *net, struct net_op *op)
{
	struct peer *p = &net->peers[op->node];
	LOCK_SCOPE(&net->lock);
	op->result = 0;
	op->issued = op->moved = op->in_flight = 0;
	op->session = p->seen;
	if (op->offset > op->ticket.size || op->len > op->ticket.size - op->offset)
		op->result = -ERANGE;
	else if (!p->seen)
		op->result = -ENOTCONN;
	if (op->result) {
		list_push(&p->ended, &op->link);
		net_tell(p);
	} else {
		list_push(&p->fresh, &op->link);
		net_wake(p);
	}
}

int net_renew(struct net *net, const struct net_credentials *files, struct err *err)
{
	struct credentials *renewed;
	int rc = credentials_new(files, net->known, net->self_index, &renewed, err);
	if (rc)
		return rc;
	LOCK_SCOPE(&net->lock);
	credentials_free(net->renewed);
	net->renewed = renewed;
	eventfd_write(net->wake, 1);
	return 0;
}

void net_ask_clocks(struct net *net)
{
	LOCK_SCOPE(&net->lock);
	net->ask_clocks = true;
	eventfd_write(net->wake, 1);
}

struct net_counts net_counts(const struct net *net)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&net->lock;
	LOCK_SCOPE(lock);
	return net->counts;
}
