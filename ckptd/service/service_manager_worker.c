/* The warden of a system service as the manager of this process: see service/post.h. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/post.h"
#include "service/service_manager_private.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { BEGIN_MS = 60000, ANSWER_MS = 2000, TURN_MS = 250 };

bool manager_is_worker(void)
{
	return getenv(POST_VARIABLE) != NULL;
}

/* The warden never sends two. */
static void close_surplus(void *arg, int fd)
{
	(void)arg;
	close(fd);
}

static void take_limits(struct manager *m, const struct post *post)
{
	m->write_bandwidth = post->a;
	m->read_bandwidth = post->b;
	m->linger_ns = post->c * CLOCK_NS_PER_MS;
}

static int receive(int sock, struct post *post, int *fd, uint64_t deadline)
{
	for (;;) {
		int rc = post_recv(sock, post, fd, close_surplus, NULL);
		if (rc != -EAGAIN)
			return rc;
		struct pollfd p = {.fd = sock, .events = POLLIN};
		if (poll(&p, 1, clock_ms_until(deadline)) <= 0 && clock_now() >= deadline)
			return -ETIMEDOUT;
	}
}

/* Arenas until BEGIN. */
static int take_first(struct manager *m, struct err *err)
{
	uint64_t deadline = clock_deadline(BEGIN_MS * CLOCK_NS_PER_MS);
	for (;;) {
		struct post post;
		int fd = -1, rc = receive(m->socket, &post, &fd, deadline);
		if (!rc && post.kind == POST_BEGIN) {
			take_limits(m, &post);
			cleanup_close(&fd);
			return 0;
		}
		if (!rc && post.kind == POST_ARENA && fd >= 0)
			rc = manager_add_passed(m, strdup(post.text), fd);
		if (rc)
			return err_set(err, rc, "the system service does not say what there is: %s", err_name(rc));
	}
}

/* A connection, or what else it says. */
static int accept_passed(struct manager *m, int listener)
{
	struct post post;
	int fd = -1, rc = post_recv(listener, &post, &fd, close_surplus, NULL);
	if (rc)
		return rc;
	if (post.kind == POST_CONNECTION && fd >= 0) {
		m->connections++;
		return fd;
	}
	if (post.kind == POST_LIMITS)
		take_limits(m, &post);
	cleanup_close(&fd);
	return -EAGAIN;
}

static bool keep(struct manager *m, const char *name, int fd)
{
	struct post post = {.kind = POST_KEEP};
	(void)m;
	snprintf(post.text, sizeof(post.text), "%s", name);
	int rc = post_send(POST_CHANNEL_FD, &post, fd);
	if (rc)
		log_warn("the system service cannot hold the arena %s: %s", name, err_name(rc));
	return !rc;
}

static void drop(struct manager *m, const char *name)
{
	struct post post = {.kind = POST_DROP};
	(void)m;
	snprintf(post.text, sizeof(post.text), "%s", name);
	int rc = post_send(POST_CHANNEL_FD, &post, -1);
	if (rc && rc != -EPIPE)
		log_warn("the system service still holds the arena %s: %s", name, err_name(rc));
}

static void ready(struct manager *m, const char *status)
{
	struct post post = {.kind = POST_READY};
	(void)m;
	snprintf(post.text, sizeof(post.text), "%.*s", (int)sizeof(post.text) - 1, status);
	(void)post_send(POST_CHANNEL_FD, &post, -1);
}

static void stopping(struct manager *m)
{
	(void)m; /* it sees the end */
}

static void turn(struct manager *m, uint64_t now)
{
	struct post post = {.kind = POST_TURN, .a = m->connections};
	post.b = m->idle_since && now - m->idle_since >= m->linger_ns;
	(void)post_send(POST_CHANNEL_FD, &post, -1);
}

int manager_open_warden(struct manager *m, struct err *err)
{
	static const struct manager_kind kind = {accept_passed, keep, drop, ready, stopping, turn};
	int type = 0;
	socklen_t len = sizeof(type);
	if (getsockopt(POST_CHANNEL_FD, SOL_SOCKET, SO_TYPE, &type, &len) || type != SOCK_SEQPACKET)
		return err_set(err, -EINVAL, POST_VARIABLE " is set, but no system service has started this process");
	m->kind = &kind;
	m->socket = fcntl(POST_CHANNEL_FD, F_DUPFD_CLOEXEC, POST_LEDGER_FD); /* ours stays open when the loop ends */
	m->pause_ns = TURN_MS * CLOCK_NS_PER_MS;
	return take_first(m, err);
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

int warden_reserve(struct manager *m, uint64_t bytes, struct err *err)
{
	struct post post = {.kind = POST_WANT, .a = bytes};
	int fd = -1;
	if (bytes <= m->leased)
		return 0;
	int rc = post_send(POST_LEDGER_FD, &post, -1);
	if (!rc)
		rc = receive(POST_LEDGER_FD, &post, &fd, clock_deadline(ANSWER_MS * CLOCK_NS_PER_MS));
	cleanup_close(&fd);
	if (rc)
		return err_set(err, -EAGAIN, "the system service does not say whether there is memory: %s",
			       err_name(rc));
	if (!post.rc)
		m->leased = bytes;
	return post.rc ? err_set(err, post.rc, "%s", post.text) : 0;
}

void warden_used(struct manager *m, uint64_t bytes)
{
	struct post post = {.kind = POST_USED, .a = bytes};
	if (m->told && bytes >= m->leased)
		return;
	m->told = !post_send(POST_LEDGER_FD, &post, -1);
	if (m->told)
		m->leased = bytes;
}
