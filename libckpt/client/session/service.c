#include "client/session/service.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "client/session/session.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#define RECONNECT_ATTEMPT (2 * CLOCK_NS_PER_S)
enum { RECONNECT_MIN_MS = 20, RECONNECT_MAX_MS = 1000, COMBINE_MS = 1 };

struct request {
	struct list link;
	uint32_t seq, generation; /* generation: of the connection that it was sent on */
	bool done;
	int rc;                       /* -ENOTCONN: the connection was lost */
	struct frame *reply;          /* with rc 0 */
	const struct stage *waits_at; /* NULL, or where its sender may sleep */
};

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* With service.lock held, which is given back after the wait; also returns without a change. */
static int wait_changed(ckpt *s, uint64_t deadline)
{
	struct service *service = &s->service;
	uint64_t soon = min_u64(deadline, clock_deadline(BEAT_NS));
	struct timespec until = {.tv_sec = (time_t)(soon / CLOCK_NS_PER_S), .tv_nsec = (long)(soon % CLOCK_NS_PER_S)};
	pthread_cond_clockwait(&service->changed, &service->lock, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&service->lock);
	beat_waiting(s);
	pthread_mutex_lock(&service->lock);
	return clock_now() < deadline ? 0 : -ETIMEDOUT;
}

/* With service.lock held. */
static int not_ready(const ckpt *s, struct err *err)
{
	if (s->service.state == SERVICE_RETURNING)
		return err_set(
			err, -ENOTCONN,
			"the daemon at %s was restarted and is back: it takes this job in again once all %u ranks "
			"of this node have returned to it",
			s->settings.socket, s->settings.local_world);
	if (s->service.trouble)
		return err_set(
			err, -ENOTCONN,
			"there is no connection to the daemon at %s: this process has %s; the library keeps trying",
			s->settings.socket,
			s->service.trouble == -ENOMEM ? "no memory for it" : "no file descriptor left for it");
	return err_set(err, -ENOTCONN, "the daemon at %s cannot be reached; the library keeps trying",
		       s->settings.socket);
}

/* What this process lacks is its own trouble, whatever the daemon does. */
static void note_trouble(struct service *service, int rc)
{
	LOCK_SCOPE(&service->lock);
	service->trouble = rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM ? rc : 0;
}

static void say_lost(ckpt *s, struct err *err)
{
	LOCK_SCOPE(&s->service.lock);
	not_ready(s, err);
}

static int wait_ready(ckpt *s, uint64_t deadline, struct err *err)
{
	struct service *service = &s->service;
	LOCK_SCOPE(&service->lock);
	while (service->state != SERVICE_READY)
		if (wait_changed(s, deadline) && service->state != SERVICE_READY)
			return not_ready(s, err);
	return 0;
}

/* Registers the request before it is sent, so that its reply cannot come too early. */
static int send_request(ckpt *s, struct request *rq, uint16_t type, const struct wbuf *body, uint64_t deadline)
{
	struct service *service = &s->service;
	LOCK_SCOPE(&service->send_lock);
	pthread_mutex_lock(&service->lock);
	bool ready = service->state == SERVICE_READY;
	int sock = service->sock;
	if (ready) {
		rq->seq = ++service->seq ? service->seq : ++service->seq;
		rq->generation = service->generation;
		list_push(&service->requests, &rq->link);
	}
	pthread_mutex_unlock(&service->lock);
	if (!ready)
		return -ENOTCONN;
	return channel_send(sock, type, rq->seq, body ? body->data : NULL, body ? body->len : 0, NULL, 0, deadline);
}

/* With service.lock held. */
static void set_done(struct service *service, struct request *rq)
{
	rq->done = true;
	pthread_cond_broadcast(&service->changed);
	if (rq->waits_at)
		stage_wake(rq->waits_at);
}

static bool is_done(struct service *service, const struct request *rq)
{
	LOCK_SCOPE(&service->lock);
	return rq->done;
}

static void pass_time(ckpt *s, const struct request *rq, const struct meanwhile *meanwhile, uint64_t deadline)
{
	while (clock_now() < deadline) {
		/* Before it is looked what there is to do. */
		uint32_t seen = atomic_load(&stage_head(meanwhile->stage)->wake);
		if (is_done(&s->service, rq))
			return;
		if (meanwhile->turn(meanwhile->arg))
			beat_waiting(s);
		else
			beat_sleep(s, meanwhile->stage, seen, deadline);
	}
}

static int wait_reply(ckpt *s, struct request *rq, int rc, uint64_t deadline)
{
	struct service *service = &s->service;
	LOCK_SCOPE(&service->lock);
	while (!rc && !rq->done)
		if (wait_changed(s, deadline) && !rq->done)
			rc = -ETIMEDOUT;
	list_remove(&rq->link);
	if (rq->done && rq->rc)
		return rq->rc;
	return rc == -EPIPE ? -ENOTCONN : rc;
}

static int moved(ckpt *s, const struct request *rq, struct err *err)
{
	s->moved_on = rq->generation;
	int rc = wire_moved_decode(rq->reply->body, rq->reply->len, &s->moved, err);
	return rc ? rc : session_moved(s, err);
}

static int open_reply(ckpt *s, const struct request *rq, uint16_t want, struct err *err)
{
	const struct frame *f = rq->reply;
	if (f->type == want)
		return 0;
	if (f->type == WIRE_ERROR)
		return link_error(f, err);
	if (f->type == WIRE_MOVED)
		return moved(s, rq, err);
	return err_set(err, -EBADMSG, "the daemon answered with %s instead of %s", wire_name(f->type), wire_name(want));
}

int service_call(ckpt *s, uint16_t type, const struct wbuf *body, uint16_t want, uint64_t deadline,
		 const struct meanwhile *meanwhile, struct frame **reply, struct err *err)
{
	struct request rq = {.waits_at = meanwhile ? meanwhile->stage : NULL};
	list_init(&rq.link);
	int rc = wait_ready(s, deadline, err);
	if (rc)
		return rc;
	rc = send_request(s, &rq, type, body, deadline);
	if (!rc && meanwhile)
		pass_time(s, &rq, meanwhile, deadline);
	rc = wait_reply(s, &rq, rc, deadline);
	if (!rc)
		rc = open_reply(s, &rq, want, err);
	else if (rc == -ENOTCONN)
		say_lost(s, err);
	else if (rc != -ETIMEDOUT)
		err_set(err, rc, "%s to the daemon: %s", wire_name(type), err_name(rc));
	if (!rc) {
		*reply = rq.reply;
	} else if (rq.reply) {
		frame_free(rq.reply);
		free(rq.reply);
	}
	return rc;
}

int service_check(ckpt *s, struct wire_welcome *welcome, struct err *err)
{
	LOCK_SCOPE(&s->service.lock);
	if (welcome)
		*welcome = s->service.welcome;
	return s->service.state == SERVICE_READY ? 0 : not_ready(s, err);
}

uint32_t service_generation(ckpt *s)
{
	LOCK_SCOPE(&s->service.lock);
	return s->service.generation;
}

void service_poke(ckpt *s)
{
	uint64_t one = 1;
	ssize_t ignored = write(s->service.wake, &one, sizeof(one));
	(void)ignored;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

/* Only here does the state change. */
static void set_state(struct service *service, enum service_state state)
{
	LOCK_SCOPE(&service->lock);
	service->state = state;
	pthread_cond_broadcast(&service->changed);
}

static void fail_requests(struct service *service)
{
	LOCK_SCOPE(&service->lock);
	list_for_safe(it, &service->requests) {
		struct request *rq = list_entry(it, struct request, link);
		list_remove(it);
		rq->rc = -ENOTCONN;
		set_done(service, rq);
	}
}

static void disconnect(struct service *service)
{
	set_state(service, SERVICE_DOWN);
	pthread_mutex_lock(&service->send_lock);
	cleanup_close(&service->sock);
	service->sock = -1;
	pthread_mutex_unlock(&service->send_lock);
	fail_requests(service);
}

/* RETURN our arena, then the same REGISTER as before: its answer brings the arenas back. */
static int send_return(ckpt *s, struct stage *stage, const struct wbuf *table, uint64_t deadline)
{
	struct service *service = &s->service;
	struct arena *own = stage->arenas.own;
	struct wire_arena_of m = {.rank = own->rank, .size = own->size};
	AUTO_WBUF struct wbuf body = {0};
	int rc = wire_arena_of_encode(&m, &body);
	LOCK_SCOPE(&service->send_lock);
	uint32_t seq = ++service->return_seq;
	if (!rc)
		rc = channel_send(service->sock, WIRE_RETURN, 0, body.data, body.len, &stage->arenas.own_fd, 1,
				  deadline);
	if (!rc)
		rc = channel_send(service->sock, WIRE_REGISTER, seq, table->data, table->len, NULL, 0, deadline);
	return rc;
}

static int reconnect(ckpt *s)
{
	struct service *service = &s->service;
	struct wire_welcome welcome;
	struct err err = {0};
	uint64_t deadline = clock_deadline(RECONNECT_ATTEMPT);
	pthread_mutex_lock(&service->lock);
	uint32_t joined = service->news.joined;
	struct settings settings = s->settings; /* rank and world as they are together */
	pthread_mutex_unlock(&service->lock);
	int sock, rc = link_open(&settings, joined, deadline, &sock, &welcome, &err);
	note_trouble(service, rc);
	if (rc) {
		log_debug("rank %u: %s", settings.rank, err.text);
		return rc;
	}
	pthread_mutex_lock(&service->lock);
	bool moved_since = settings.rank != s->settings.rank || settings.world != s->settings.world;
	service->sock = sock;
	service->welcome = welcome;
	service->generation++;
	/* Sequence numbers of returns stand apart from those of requests. */
	service->return_seq |= 0x80000000u;
	if (service->news.joined)
		news_epoch(service, welcome.epoch, "the daemon was restarted and the job has moved on");
	pthread_mutex_unlock(&service->lock);
	AUTO_WBUF struct wbuf table = {0};
	struct stage *stage = session_stage_table(s, &table, &rc);
	if (moved_since)
		rc = -EAGAIN;
	if (stage && !rc)
		rc = send_return(s, stage, &table, deadline);
	stage_put(stage);
	if (rc)
		disconnect(service);
	else
		set_state(service, stage ? SERVICE_RETURNING : SERVICE_READY);
	return rc;
}

/* For the service thread: the session's own may just be given another place. */
static uint32_t rank_of(ckpt *s)
{
	LOCK_SCOPE(&s->service.lock);
	return s->settings.rank;
}

/* ---- what arrives ------------------------------------------------------------------------------------------------ */

static bool give_reply(struct service *service)
{
	LOCK_SCOPE(&service->lock);
	list_for(it, &service->requests) {
		struct request *rq = list_entry(it, struct request, link);
		if (rq->seq != service->spare->seq || rq->done)
			continue;
		rq->reply = service->spare;
		set_done(service, rq);
		/* The daemon hangs up after the goodbye; connecting again would be a new arrival. */
		service->stopping |= service->spare->type == WIRE_BYE;
		service->spare = NULL;
		return true;
	}
	return false;
}

/* The answer to the REGISTER of a reconnection. */
static void returned(ckpt *s, struct frame *f)
{
	struct service *service = &s->service;
	struct err err = {0};
	struct stage *stage = session_stage(s);
	bool same = stage && f->type == WIRE_ARENA && stage_again(stage, f);
	if (f->type == WIRE_ERROR)
		link_error(f, &err);
	if (!stage) /* it has moved since */
		return set_state(service, SERVICE_READY);
	if (!same)
		log_warn("rank %u: the restarted daemon did not take the arena back, snapshots in memory are "
			 "lost: %s",
			 rank_of(s), err.text);
	else
		stage_ring(stage);
	atomic_store(&stage->lost, !same);
	stage_put(stage);
	set_state(service, SERVICE_READY);
}

static void unasked(ckpt *s, struct frame *f)
{
	struct service *service = &s->service;
	struct wire_event event;
	struct wire_epoch epoch;
	struct err err = {0};
	if (f->type == WIRE_EVENT && !wire_event_decode(f->body, f->len, &event, &err)) {
		LOCK_SCOPE(&service->lock);
		news_event(service, &event);
	} else if (f->type == WIRE_EPOCH && !wire_epoch_decode(f->body, f->len, &epoch, &err)) {
		LOCK_SCOPE(&service->lock);
		news_epoch(service, epoch.epoch, epoch.reason);
	} else if (f->type == WIRE_ERROR && link_error(f, &err)) {
		log_warn("rank %u: the daemon says: %s", rank_of(s), err.text);
	} else if (err.text[0]) {
		log_warn("rank %u: %s", rank_of(s), err.text);
	}
}

/* One frame; -errno: the connection is of no more use. */
static int receive(ckpt *s)
{
	struct service *service = &s->service;
	if (!service->spare)
		service->spare = malloc(sizeof(*service->spare));
	if (!service->spare)
		return -ENOMEM;
	struct frame *f = service->spare;
	int rc = channel_recv(service->sock, f, 0);
	if (rc)
		return rc == -EAGAIN ? 0 : rc;
	if (f->seq && give_reply(service))
		return 0;
	if (!f->seq)
		unasked(s, f);
	else if (f->seq == service->return_seq && service->state == SERVICE_RETURNING)
		returned(s, f);
	frame_free(f);
	return 0;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static bool stopping(struct service *service)
{
	LOCK_SCOPE(&service->lock);
	return service->stopping;
}

/* Sleeps until the socket or the wake descriptor has something, or the timeout. */
static void sleep_on(struct service *service, int timeout_ms)
{
	struct pollfd fds[2] = {{.fd = service->wake, .events = POLLIN}, {.fd = service->sock, .events = POLLIN}};
	uint64_t count;
	poll(fds, service->sock >= 0 ? 2 : 1, timeout_ms);
	ssize_t ignored = read(service->wake, &count, sizeof(count));
	(void)ignored;
}

static bool combine(ckpt *s)
{
	struct stage *stage = session_stage(s);
	if (!stage)
		return false;
	bool ended = false, active = capture_combine(&stage->capture, &ended);
	if (ended)
		stage_ring(stage);
	stage_put(stage);
	return active;
}

static void *serve(void *arg)
{
	ckpt *s = arg;
	struct service *service = &s->service;
	uint64_t retry_at = 0, pause_ms = RECONNECT_MIN_MS;
	while (!stopping(service)) {
		bool combining = combine(s);
		int timeout = service->sock < 0 ? clock_ms_until(retry_at) : -1;
		sleep_on(service, combining ? COMBINE_MS : timeout);
		if (service->sock >= 0) {
			int rc = receive(s);
			if (rc < 0) {
				note_trouble(service, rc);
				disconnect(service);
				retry_at = clock_now();
				pause_ms = RECONNECT_MIN_MS;
			}
		} else if (clock_now() >= retry_at && !stopping(service) && reconnect(s)) {
			retry_at = clock_deadline(pause_ms * CLOCK_NS_PER_MS);
			pause_ms = min_u64(pause_ms * 2, RECONNECT_MAX_MS);
		}
		news_tell(s);
	}
	return NULL;
}

/* The trainer's signals belong to the trainer's threads. */
static int start_thread(ckpt *s)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = -pthread_create(&s->service.thread, NULL, serve, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return rc;
	pthread_setname_np(s->service.thread, "ckpt-service");
	s->service.started = true;
	return 0;
}

int service_start(ckpt *s, uint64_t deadline, struct err *err)
{
	struct service *service = &s->service;
	list_init(&service->requests);
	pthread_mutex_init(&service->send_lock, NULL);
	pthread_mutex_init(&service->lock, NULL);
	pthread_cond_init(&service->changed, NULL);
	service->sock = service->wake = service->over = -1;
	int rc = link_open_patiently(&s->settings, deadline, &service->sock, &service->welcome, err);
	if (rc)
		return rc;
	s->settings.spread = service->welcome.spread;
	service->news.epoch = service->welcome.epoch;
	service->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	service->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service->wake < 0 || service->over < 0)
		return err_set(err, -errno, "eventfd: %s", err_name(errno));
	service->state = SERVICE_READY;
	rc = start_thread(s);
	return rc ? err_set(err, rc, "cannot start the service thread: %s", err_name(rc)) : 0;
}

void service_stop(ckpt *s)
{
	struct service *service = &s->service;
	if (service->started) {
		pthread_mutex_lock(&service->lock);
		service->stopping = true;
		pthread_mutex_unlock(&service->lock);
		service_poke(s);
		pthread_join(service->thread, NULL);
	}
	cleanup_close(&service->sock);
	cleanup_close(&service->wake);
	cleanup_close(&service->over);
	free(service->spare);
	pthread_cond_destroy(&service->changed);
	pthread_mutex_destroy(&service->lock);
	pthread_mutex_destroy(&service->send_lock);
}
