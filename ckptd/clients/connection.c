#include "clients/connection.h"

#include "base/channel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "clients/operator.h"
#include "clients/operator_forward.h"
#include "clients/operators.h"
#include "cluster/room.h"
#include "job/room.h"
#include "observe/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert((int)WIRE_HOST_MAX == (int)ROSTER_HOST_MAX, "a node's host fits WELCOME");

struct client {
	struct list link;
	struct connections *connections;
	int sock;
	struct watch *watch;
	struct peer peer;
	bool hello_received, dead;
	bool entered; /* in a callback: freed when it returns */
	uint64_t hello_deadline;
	struct job *job;   /* NULL for an observer */
	struct rank *rank; /* NULL for launcher and observer */
	struct list queue; /* struct outgoing */
	unsigned queued;
};

/* A frame that the client had no room for. */
struct outgoing {
	struct list link;
	uint16_t type;
	uint32_t seq;
	size_t len;
	int nfds, fds[FRAME_FDS_MAX];
	uint8_t body[];
};

void connections_init(struct connections *connections, struct operators *operators)
{
	*connections = (struct connections){.operators = operators};
	list_init(&connections->list);
}

static void outgoing_free(struct outgoing *out)
{
	for (int i = 0; i < out->nfds; i++)
		close(out->fds[i]);
	free(out);
}

/* ---- end ------------------------------------------------------------------------------------------------------- */

/* The job hears of it once; memory is freed when no callback is on the stack. */
static void hang_up(struct client *c)
{
	if (c->dead)
		return;
	c->dead = true;
	watch_remove(c->watch);
	c->watch = NULL;
	close(c->sock);
	forward_forget(c->connections->operators, c);
	if (c->job && (!c->rank || c->rank->client == c))
		job_disconnected(c->job, c->rank);
	c->job = NULL;
	c->rank = NULL;
}

static void bury(struct client *c)
{
	if (!c->dead || c->entered)
		return;
	for (struct list *node; (node = list_pop(&c->queue));)
		outgoing_free(list_entry(node, struct outgoing, link));
	list_remove(&c->link);
	c->connections->count--;
	free(c);
}

void connections_free(struct connections *connections)
{
	list_for_safe(node, &connections->list) {
		struct client *c = list_entry(node, struct client, link);
		hang_up(c);
		c->entered = false;
		bury(c);
	}
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

static int keep(struct client *c, uint16_t type, uint32_t seq, const struct wbuf *body, const int *fds, int nfds)
{
	if (c->queued >= CONNECTION_QUEUE_MAX)
		return -ENOBUFS;
	struct outgoing *out = malloc(sizeof(*out) + body->len);
	if (!out)
		return -ENOMEM;
	*out = (struct outgoing){.type = type, .seq = seq, .len = body->len};
	if (body->len)
		memcpy(out->body, body->data, body->len);
	for (; out->nfds < nfds; out->nfds++) {
		out->fds[out->nfds] = dup(fds[out->nfds]);
		if (out->fds[out->nfds] < 0) {
			outgoing_free(out);
			return -EMFILE;
		}
	}
	list_push(&c->queue, &out->link);
	c->queued++;
	return 0;
}

static void on_event(void *arg, uint32_t events);

static void want_write(struct client *c, bool on)
{
	/* Not hang_up: the caller may be in the middle of the job's business. */
	if (watch_modify(c->watch, on ? EPOLLIN | EPOLLOUT : EPOLLIN))
		shutdown(c->sock, SHUT_RDWR);
}

void client_send(struct client *c, uint16_t type, uint32_t seq, const struct wbuf *body, const int *fds, int nfds)
{
	if (!c || c->dead)
		return;
	int rc = body->failed ? -ENOMEM : failpoint("conn.send", NULL);
	if (!rc && list_empty(&c->queue)) {
		rc = channel_send(c->sock, type, seq, body->data, body->len, fds, nfds, 0);
		if (!rc)
			return;
	}
	if (!rc || rc == -EAGAIN) {
		bool first = list_empty(&c->queue);
		rc = keep(c, type, seq, body, fds, nfds);
		if (!rc && first)
			want_write(c, true);
	}
	if (!rc)
		return;
	if (rc != -EPIPE)
		log_warn("client %d: cannot send %s: %s: disconnecting", (int)c->peer.pid, wire_name(type),
			 err_name(rc));
	/* The caller may hold pointers into the job: the end is seen by the socket's own event. */
	shutdown(c->sock, SHUT_RDWR);
}

void client_error(struct client *c, uint32_t seq, int rc, const char *fmt, ...)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_error m = {.rc = rc};
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(m.text, sizeof(m.text), fmt, ap);
	va_end(ap);
	if (wire_error_encode(&m, &body))
		body.failed = true;
	client_send(c, WIRE_ERROR, seq, &body, NULL, 0);
}

void client_detach(struct client *c)
{
	c->job = NULL;
	c->rank = NULL;
	shutdown(c->sock, SHUT_RDWR);
}

void client_move(struct client *c, struct rank *rank)
{
	c->rank = rank;
}

void client_kill(const struct client *c)
{
	if (c && c->peer.pid > 0)
		kill(c->peer.pid, SIGKILL);
}

static void flush(struct client *c)
{
	while (!list_empty(&c->queue)) {
		struct outgoing *out = list_entry(c->queue.next, struct outgoing, link);
		int rc = channel_send(c->sock, out->type, out->seq, out->body, out->len, out->fds, out->nfds, 0);
		if (rc == -EAGAIN)
			return;
		if (rc) {
			hang_up(c);
			return;
		}
		list_remove(&out->link);
		c->queued--;
		outgoing_free(out);
	}
	want_write(c, false);
}

/* ---- receiving ------------------------------------------------------------------------------------------------- */

static void greet(struct client *c, uint32_t seq)
{
	AUTO_WBUF struct wbuf body = {0};
	const struct config *config = &c->connections->operators->runtime->config;
	struct wire_welcome m = {.protocol = WIRE_PROTOCOL,
				 .epoch = c->job ? c->job->epoch : 0,
				 .storage = config->store != NULL,
				 .peers = c->job && copies_wanted(&c->job->copies),
				 .spread = c->job && c->job->spread};
	const struct roster *roster = c->connections->operators->peers->roster;
	snprintf(m.node, sizeof(m.node), "%s", config->node);
	if (roster)
		memcpy(m.host, roster->nodes[c->connections->operators->peers->self].host, sizeof(m.host));
	snprintf(m.version, sizeof(m.version), "%s", CKPT_VERSION);
	if (wire_welcome_encode(&m, &body))
		body.failed = true;
	c->hello_received = true;
	client_send(c, WIRE_WELCOME, seq, &body, NULL, 0);
}

/* A process of another PID namespace has no number here that could be watched; the socket knows it all the same. */
static void watch_foreign(struct client *c)
{
	if (c->rank && c->peer.pid < 0)
		job_watch_foreign(c->rank, c->peer.pid, channel_peer_pidfd(c->sock));
}

static void on_hello(struct client *c, const struct frame *f)
{
	struct wire_hello m;
	struct err err = {{0}};
	int rc = wire_hello_decode(f->body, f->len, &m, &err);
	if (!rc && m.role == ROLE_RANK && !c->peer.pid)
		rc = err_set(&err, -EPERM,
			     "the rank is in another PID namespace, where ckptd cannot watch it: let ckptd share that "
			     "of the "
			     "host (hostPID, --pid=host), or use Linux 6.9 or later");
	if (!rc && m.role != ROLE_OBSERVER) {
		rc = job_hello(c->connections->operators->jobs, c, &m, c->peer.pid, &c->job, &c->rank, &err);
		if (rc)
			c->job = NULL;
	}
	if (rc) {
		client_error(c, f->seq, rc, "%s", err.text);
		return; /* it may try again (a rank that is still held); the deadline of the handshake bounds it */
	}
	watch_foreign(c);
	greet(c, f->seq);
	if (m.role == ROLE_LAUNCHER)
		job_hold_all(c->job);
}

static int on_return(struct client *c, struct frame *f, struct err *err)
{
	struct wire_arena_of m;
	int rc = wire_arena_of_decode(f->body, f->len, &m, err);
	int fd = rc ? -1 : frame_take_fd(f, 0);
	if (!rc && fd < 0)
		rc = err_set(err, -EBADMSG, "RETURN without an arena");
	if (rc)
		return rc;
	rc = job_return(c->job, m.rank, fd, err);
	if (rc)
		log_warn("job %s: an arena that came back is refused: %s", c->job->name, err->text);
	return 0; /* a refused arena is no reason to lose the client */
}

static int on_rank_frame(struct client *c, struct frame *f, struct err *err)
{
	struct wire_join join;
	struct wire_restore restore;
	struct wire_mark mark;
	int rc;
	switch (f->type) {
	case WIRE_REGISTER:
		job_register(c->rank, f->seq, f->body, f->len);
		return 0;
	case WIRE_JOIN:
		rc = wire_join_decode(f->body, f->len, &join, err);
		if (!rc)
			job_join(c->rank, f->seq, &join);
		return rc;
	case WIRE_RESTORE:
		rc = wire_restore_decode(f->body, f->len, &restore, err);
		if (!rc)
			job_restore(c->rank, f->seq, &restore);
		return rc;
	case WIRE_MARK:
		rc = wire_mark_decode(f->body, f->len, &mark, err);
		if (!rc)
			job_mark(c->rank, f->seq, &mark);
		return rc;
	case WIRE_BYE:
		job_bye(c->rank, f->seq);
		return 0;
	default:
		return err_set(err, -EBADMSG, "a rank may not send %s", wire_name(f->type));
	}
}

static int on_launcher_frame(struct client *c, struct frame *f, struct err *err)
{
	struct wire_spawned spawned;
	struct wire_exited exited;
	struct wire_offer offer;
	int rc;
	switch (f->type) {
	case WIRE_SPAWNED:
		rc = wire_spawned_decode(f->body, f->len, &spawned, err);
		if (!rc)
			job_spawned(c->job, spawned.rank, spawned.pid, f->nfds ? frame_take_fd(f, 0) : -1);
		return rc;
	case WIRE_EXITED:
		rc = wire_exited_decode(f->body, f->len, &exited, err);
		if (!rc)
			job_exited(c->job, exited.rank, exited.pid, exited.status);
		return rc;
	case WIRE_OFFER:
		rc = wire_offer_decode(f->body, f->len, &offer, err);
		if (rc)
			return rc;
		rc = resize_offer(c->job, f->seq, &offer, err);
		if (rc == -EAGAIN)
			hang_up(c); /* it comes again, and says anew also what it has said behind that */
		else if (rc)
			client_error(c, f->seq, rc, "%s", err->text);
		return 0;
	case WIRE_STOP:
		job_stop(c->job);
		return 0;
	default:
		return err_set(err, -EBADMSG, "a launcher may not send %s", wire_name(f->type));
	}
}

static void on_status(struct client *c, uint32_t seq)
{
	AUTO_WBUF struct wbuf body = {0};
	if (status_encode(c->connections->operators->observe, &body))
		body.failed = true;
	client_send(c, WIRE_STATUS, seq, &body, NULL, 0);
}

static int on_command(struct client *c, const struct frame *f, struct err *err)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_command command;
	struct wire_answer answer;
	struct err why = {{0}};
	int rc = wire_command_decode(f->body, f->len, &command, err);
	if (rc)
		return rc;
	rc = operator_take(c->connections->operators, c, f->seq, &command, &answer, &why);
	if (rc == OPERATOR_LATER)
		return 0;
	if (rc) {
		client_error(c, f->seq, rc, "%s", why.text);
		return 0;
	}
	if (wire_answer_encode(&answer, &body))
		body.failed = true;
	client_send(c, WIRE_COMMAND, f->seq, &body, NULL, 0);
	return 0;
}

static void on_frame(struct client *c, struct frame *f)
{
	struct err err = {{0}};
	int rc = 0;
	if (!c->hello_received && f->type != WIRE_HELLO)
		rc = err_set(&err, -EBADMSG, "%s before HELLO", wire_name(f->type));
	else if (f->type == WIRE_HELLO && c->hello_received)
		rc = err_set(&err, -EBADMSG, "a second HELLO");
	else if (f->type == WIRE_HELLO)
		on_hello(c, f);
	else if (f->type == WIRE_STATUS)
		on_status(c, f->seq);
	else if (!c->job && f->type == WIRE_COMMAND)
		rc = on_command(c, f, &err);
	else if (!c->job)
		rc = err_set(&err, -EBADMSG, "an observer may not send %s", wire_name(f->type));
	else if (f->type == WIRE_RETURN)
		rc = on_return(c, f, &err);
	else
		rc = c->rank ? on_rank_frame(c, f, &err) : on_launcher_frame(c, f, &err);
	if (!rc)
		return;
	log_warn("client %d: %s: disconnecting", (int)c->peer.pid, err.text);
	client_error(c, f->seq, rc, "%s", err.text);
	hang_up(c);
}

static void receive(struct client *c)
{
	/* A turn is bounded, so that a flood cannot keep the loop. */
	for (int i = 0; i < CONNECTION_FRAMES_PER_TURN && !c->dead; i++) {
		AUTO_FREE struct frame *f = calloc(1, sizeof(*f));
		int rc = f ? channel_recv(c->sock, f, 0) : -ENOMEM;
		if (rc == -EAGAIN)
			return;
		if (rc) {
			if (rc != -EPIPE)
				log_warn("client %d: %s: disconnecting", (int)c->peer.pid, err_name(rc));
			hang_up(c);
			return;
		}
		on_frame(c, f);
		frame_free(f);
	}
}

static void on_event(void *arg, uint32_t events)
{
	struct client *c = arg;
	c->entered = true;
	if (events & EPOLLOUT)
		flush(c);
	if (!c->dead && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(c);
	c->entered = false;
	bury(c);
}

/* ---- beginning ------------------------------------------------------------------------------------------------- */

static unsigned held_by(const struct connections *connections, pid_t pid)
{
	unsigned n = 0;
	list_for(node, &connections->list)
		n += list_entry(node, struct client, link)->peer.pid == pid;
	return n;
}

static bool admitted(struct connections *connections, int sock, struct peer *peer)
{
	if (channel_peer(sock, peer))
		return false;
	if (peer->uid != geteuid() && peer->uid != 0) {
		log_warn("a process of user %u is refused: this daemon serves user %u", peer->uid, geteuid());
		return false;
	}
	if (connections->count >= CONNECTIONS_MAX) {
		log_warn("client %d is refused: %d connections are open", (int)peer->pid, CONNECTIONS_MAX);
		return false;
	}
	if (held_by(connections, peer->pid) >= CONNECTION_PROCESS_MAX) {
		log_warn("client %d is refused: it holds %d connections already", (int)peer->pid,
			 CONNECTION_PROCESS_MAX);
		return false;
	}
	return true;
}

void connections_add(struct connections *connections, int sock)
{
	struct peer peer;
	struct client *c = admitted(connections, sock, &peer) ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		close(sock);
		return;
	}
	*c = (struct client){.connections = connections,
			     .sock = sock,
			     .peer = peer,
			     .hello_deadline = clock_deadline(CONNECTION_HELLO_MS * CLOCK_NS_PER_MS)};
	list_init(&c->queue);
	c->watch = loop_watch(connections->operators->runtime->loop, sock, EPOLLIN, on_event, c);
	if (!c->watch) {
		close(sock);
		free(c);
		return;
	}
	list_push(&connections->list, &c->link);
	connections->count++;
}

void connections_tick(struct connections *connections)
{
	uint64_t now = clock_now();
	list_for_safe(node, &connections->list) {
		struct client *c = list_entry(node, struct client, link);
		if (!c->hello_received && !c->dead && now > c->hello_deadline) {
			log_warn("client %d: no successful HELLO within %d ms: disconnecting", (int)c->peer.pid,
				 CONNECTION_HELLO_MS);
			hang_up(c);
		}
		bury(c);
	}
}
