#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "client/session/session.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* How long a rank that is said to be held may still turn out to be a process in its last moments. */
#define HELD_PATIENCE (2 * CLOCK_NS_PER_S)
/* A daemon that is started together with its ranks is there by then: who waits longer is told for what. */
#define QUIET_WAIT CLOCK_NS_PER_S

int link_error(const struct frame *f, struct err *err)
{
	struct wire_error m;
	int rc = wire_error_decode(f->body, f->len, &m, err);
	return rc ? rc : err_set(err, m.rc, "%s", m.text);
}

static bool is_socket(const char *path)
{
	struct stat st;
	return stat(path, &st) || S_ISSOCK(st.st_mode); /* gone meanwhile: none is there */
}

static int connect_errno(int rc, const struct settings *settings, struct err *err)
{
	switch (rc) {
	case -EACCES:
	case -EPERM:
		return err_set(err, -EACCES, "the daemon's socket %s belongs to another user", settings->socket);
	case -ENOENT:
	case -ECONNREFUSED:
		if (!is_socket(settings->socket))
			return err_set(err, -ENOTCONN,
				       "%s is not a socket: name the socket of this node's ckptd in CKPT_SOCKET",
				       settings->socket);
		return err_set(err, -ENOTCONN,
			       "no daemon listens at %s: start ckptd, or name its socket in CKPT_SOCKET",
			       settings->socket);
	case -EMFILE:
	case -ENFILE:
		return err_set(err, rc,
			       "no file descriptor left to reach the daemon at %s: raise the limit of open files",
			       settings->socket);
	case -ETIMEDOUT:
	case -EPIPE:
		return err_set(err, -ENOTCONN, "the daemon at %s does not answer", settings->socket);
	default:
		return rc;
	}
}

static int send_hello(int sock, const struct settings *settings, uint32_t epoch, uint64_t deadline, struct err *err)
{
	struct wire_hello hello = {.protocol_min = WIRE_PROTOCOL,
				   .protocol_max = WIRE_PROTOCOL,
				   .role = ROLE_RANK,
				   .rank = settings->rank,
				   .world = settings->world,
				   .local_world = settings->local_world,
				   .spread = settings->spread,
				   .epoch = epoch,
				   .slots = settings->slots};
	memcpy(hello.job, settings->job, sizeof(hello.job));
	snprintf(hello.version, sizeof(hello.version), "%s", ckpt_version());
	AUTO_WBUF struct wbuf body = {0};
	int rc = wire_hello_encode(&hello, &body);
	if (!rc)
		rc = channel_send(sock, WIRE_HELLO, 1, body.data, body.len, NULL, 0, deadline);
	if (rc == -EPIPE)
		rc = 0; /* the daemon may have said why, before it heard anything: that is read next */
	return rc ? err_set(err, rc, "HELLO to the daemon at %s: %s", settings->socket, err_name(rc)) : 0;
}

static int recv_welcome(int sock, uint64_t deadline, struct wire_welcome *welcome, struct err *err)
{
	AUTO_FREE struct frame *f = malloc(sizeof(*f));
	if (!f)
		return err_set(err, -ENOMEM, "no memory for a frame");
	int rc = channel_recv(sock, f, deadline);
	if (rc)
		return err_set(err, rc, "no answer to HELLO: %s", err_name(rc));
	if (f->type == WIRE_WELCOME)
		rc = wire_welcome_decode(f->body, f->len, welcome, err);
	else if (f->type == WIRE_ERROR)
		rc = link_error(f, err);
	else
		rc = err_set(err, -EBADMSG, "the daemon answered HELLO with %s", wire_name(f->type));
	frame_free(f);
	return rc;
}

int link_open(const struct settings *settings, uint32_t epoch, uint64_t deadline, int *out,
	      struct wire_welcome *welcome, struct err *err)
{
	AUTO_CLOSE int sock = channel_connect(settings->socket, deadline, err);
	if (sock < 0)
		return connect_errno(sock, settings, err);
	int rc = send_hello(sock, settings, epoch, deadline, err);
	if (!rc)
		rc = recv_welcome(sock, deadline, welcome, err);
	if (rc == -EPIPE || rc == -ETIMEDOUT)
		return connect_errno(rc, settings, err);
	if (rc)
		return rc;
	*out = steal_fd(&sock);
	return 0;
}

void service_greet_again(ckpt *s, uint32_t generation)
{
	struct service *service = &s->service;
	LOCK_SCOPE(&service->send_lock); /* the thread does not close it meanwhile; what it reads next is its end */
	LOCK_SCOPE(&service->lock);
	if (service->generation != generation && service->sock >= 0)
		shutdown(service->sock, SHUT_RDWR);
}

static void tell_wait(const struct settings *settings, int rc, uint64_t deadline, const struct err *err)
{
	int left_ms = clock_ms_until(deadline);
	const char *what = rc == -ENOTCONN ? ": waiting for a daemon" : ": waiting";
	log_warn("rank %u: %s%s, at most %d s longer", settings->rank, err->text, what, (left_ms + 999) / 1000);
}

int link_open_patiently(const struct settings *settings, uint64_t deadline, int *sock, struct wire_welcome *welcome,
			struct err *err)
{
	uint64_t held_until = 0; /* counts from when it was first said: the daemon may have come late */
	uint64_t tell_at = clock_deadline(QUIET_WAIT);
	struct err refusal;
	int refused = 0;
	for (int pause_ms = 10;; pause_ms = pause_ms < 200 ? pause_ms * 2 : 200) {
		int rc = link_open(settings, 0, deadline, sock, welcome, err);
		if (rc == -EBUSY && !held_until)
			held_until = clock_deadline(HELD_PATIENCE);
		bool late = rc == -ENOTCONN && refused && clock_now() >= deadline; /* for it to say so again */
		if (rc == -EBUSY || rc == -EAGAIN)
			refusal = *err;
		refused = rc == -EBUSY || rc == -EAGAIN ? rc : refused;
		if (late) {
			rc = refused;
			*err = refusal;
		}
		bool again = rc == -ENOTCONN || rc == -EAGAIN || (rc == -EBUSY && clock_now() < held_until);
		if (!again || clock_now() + (uint64_t)pause_ms * CLOCK_NS_PER_MS >= deadline)
			return rc == -EAGAIN ? -EBUSY : rc;
		if (rc != -EBUSY && clock_now() >= tell_at) {
			tell_wait(settings, rc, deadline, err);
			tell_at = UINT64_MAX;
		}
		poll(NULL, 0, pause_ms);
	}
}
