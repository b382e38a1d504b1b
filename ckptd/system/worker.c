/* The process of one user, from the warden's side. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/room.h"
#include "service/room.h"
#include "users.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PACKETS_PER_TURN = 16, LOG_BYTES_PER_TURN = 8192, PROVEN_MS = 10000, REFUSED_MS = 5000 };

static void bury(void *arg, int fd)
{
	struct user *user = arg;
	undertaker_bury(&user->users->undertaker, fd);
}

static void unwatch(struct watch **watch)
{
	watch_remove(*watch);
	*watch = NULL;
}

/* ---- limits -------------------------------------------------------------------------------------------------------- */

static unsigned served(const struct users *u)
{
	unsigned n = 0;
	list_for(node, &u->list)
		n += list_entry(node, struct user, link)->state != USER_RESTING;
	return n;
}

static struct post limits(const struct user *user, uint32_t kind)
{
	const struct config *c = &user->users->config;
	unsigned n = served(user->users);
	return (struct post){.kind = kind,
			     .a = ledger_bandwidth(c->write_bandwidth, user->write_bandwidth, n),
			     .b = ledger_bandwidth(c->read_bandwidth, user->read_bandwidth, n),
			     .c = c->user_linger_ms};
}

void worker_send_limits(struct users *u)
{
	list_for(node, &u->list) {
		const struct user *user = list_entry(node, struct user, link);
		struct post post = limits(user, POST_LIMITS);
		if (user->state == USER_SERVED)
			(void)post_send(user->worker.channel, &post, -1); /* one that does not read has its old ones */
	}
}

static uint64_t leased_by_others(const struct user *user)
{
	uint64_t sum = 0;
	list_for(node, &user->users->list) {
		const struct user *other = list_entry(node, struct user, link);
		if (other != user)
			sum += other->leased;
	}
	return sum;
}

static void on_want(struct user *user, uint64_t bytes)
{
	struct err err = {{0}};
	struct ledger ledger = {user->users->config.memory_limit, user->memory_limit, leased_by_others(user)};
	struct post answer = {.kind = POST_ANSWER};
	answer.rc = ledger_memory(&ledger, user->name, bytes, &err);
	if (!answer.rc)
		user->leased = bytes;
	snprintf(answer.text, sizeof(answer.text), "%.*s", (int)sizeof(answer.text) - 1, err.text);
	(void)post_send(user->worker.ledger, &answer, -1);
}

static void on_ledger(void *arg, uint32_t events)
{
	struct user *user = arg;
	struct post post;
	int fd, rc = 0;
	(void)events;
	for (int i = 0; i < PACKETS_PER_TURN; i++) {
		rc = post_recv(user->worker.ledger, &post, &fd, bury, user);
		if (rc)
			break;
		undertaker_bury(&user->users->undertaker, fd);
		if (post.kind == POST_WANT)
			on_want(user, post.a);
		else if (post.kind == POST_USED && post.a < user->leased)
			user->leased = post.a;
	}
	if (rc == -EPIPE)
		unwatch(&user->ledger_watch);
}

/* ---- its life ------------------------------------------------------------------------------------------------------ */

static void close_worker(struct user *user)
{
	struct spawned *w = &user->worker;
	int *fds[] = {&w->pidfd, &w->channel, &w->ledger, &w->report, &w->log};
	struct watch **watches[] = {&user->pid_watch, &user->channel_watch, &user->ledger_watch, &user->report_watch,
				    &user->log_watch};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		unwatch(watches[i]);
		undertaker_bury(&user->users->undertaker, *fds[i]);
		*fds[i] = -1;
	}
}

static void on_exit_status(struct user *user, int status)
{
	uint64_t now = clock_now();
	bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (clean || (user->ready_ns && now - user->ready_ns > PROVEN_MS * CLOCK_NS_PER_MS))
		user->failures = 0;
	if (user->state == USER_ENDING || clean) {
		log_info("%s: the process %d has ended", user->name, (int)user->worker.pid);
		return;
	}
	user->next_ns = now + (user->refused ? REFUSED_MS * CLOCK_NS_PER_MS : ledger_pause_ns(user->failures++));
	if (user->refused)
		return;
	if (WIFSIGNALED(status))
		snprintf(user->why, sizeof(user->why), "the process of user %s was killed by signal %d", user->name,
			 WTERMSIG(status));
	log_warn("%s: the process %d has ended with %s %d", user->name, (int)user->worker.pid,
		 WIFSIGNALED(status) ? "signal" : "status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void drain_log(struct user *user);
static void on_report(void *arg, uint32_t events);
static void on_channel(void *arg, uint32_t events);

static void on_pid(void *arg, uint32_t events)
{
	struct user *user = arg;
	int status = 0;
	(void)events;
	if (waitpid(user->worker.pid, &status, WNOHANG) == 0)
		return;
	on_report(user, 0);
	on_channel(user, 0); /* what it has given us to hold */
	drain_log(user);
	on_exit_status(user, status);
	bool ended = user->state == USER_ENDING && WIFEXITED(status);
	close_worker(user);
	confine_remove(&user->users->confine, user->uid);
	user->state = USER_RESTING;
	user->ready_ns = 0;
	user->passed = 0;
	if (ended && !user->users->stopping)
		held_drop_all(user); /* it had no jobs */
	if (!user->nheld)
		user->leased = 0;
	worker_send_limits(user->users);
}

static void say(void *arg, enum log_level level, const char *text)
{
	struct user *user = arg;
	log_line(level, "%s: %s", user->name, text);
	if (level == LOG_ERROR || user->state == USER_STARTING)
		snprintf(user->why, sizeof(user->why), "%s", text);
}

static void drain_log(struct user *user)
{
	char text[LOG_BYTES_PER_TURN];
	ssize_t n = read(user->worker.log, text, sizeof(text));
	if (n > 0)
		lines_feed(&user->lines, text, (size_t)n, clock_now(), say, user);
	else if (n == 0)
		unwatch(&user->log_watch);
}

static void on_log(void *arg, uint32_t events)
{
	(void)events;
	drain_log(arg);
}

/* ---- what it says -------------------------------------------------------------------------------------------------- */

static void on_who(struct user *user, const struct post *post)
{
	snprintf(user->name, sizeof(user->name), "%.*s", (int)sizeof(user->name) - 1, post->text);
	user->known = true;
	user->memory_limit = post->a;
	user->write_bandwidth = post->b;
	user->read_bandwidth = post->c;
}

/* Written by what was still ours. */
static void on_report(void *arg, uint32_t events)
{
	struct user *user = arg;
	struct post post;
	ssize_t n = 0;
	(void)events;
	while (user->report_watch && (n = read(user->worker.report, &post, sizeof(post))) == (ssize_t)sizeof(post)) {
		if (post.kind == POST_WHO)
			on_who(user, &post);
		if (post.kind != POST_REFUSED)
			continue;
		snprintf(user->why, sizeof(user->why), "%s", post.text);
		user->refused = post.rc == -EPERM || post.rc == -ENOENT;
	}
	if (!n)
		unwatch(&user->report_watch);
}

static void on_ready(struct user *user)
{
	if (user->state != USER_STARTING)
		return;
	user->state = USER_SERVED;
	user->ready_ns = clock_now();
	user->why[0] = '\0';
	log_info("%s: served by process %d", user->name, (int)user->worker.pid);
	worker_pass(user);
}

/* It may end when it has had all that was sent to it. */
static void on_turn(struct user *user, const struct post *post)
{
	user->heard_ns = clock_now();
	if (post->b && user->state == USER_SERVED && post->a == user->passed && !user->npending)
		worker_end(user);
}

static void on_packet(struct user *user, const struct post *post, int fd)
{
	switch (post->kind) {
	case POST_READY:
		on_ready(user);
		break;
	case POST_KEEP:
		held_keep(user, post->text, fd);
		return;
	case POST_DROP:
		held_drop(user, post->text);
		break;
	case POST_TURN:
		on_turn(user, post);
		break;
	default:
		break;
	}
	undertaker_bury(&user->users->undertaker, fd);
}

static void on_channel(void *arg, uint32_t events)
{
	struct user *user = arg;
	struct post post;
	int fd, rc = 0;
	(void)events;
	for (int i = 0; !rc && i < PACKETS_PER_TURN * (events ? 1 : HELD_MAX); i++) {
		rc = post_recv(user->worker.channel, &post, &fd, bury, user);
		if (!rc)
			on_packet(user, &post, fd);
	}
	if (rc == -EPIPE)
		unwatch(&user->channel_watch); /* its end is told by the pidfd */
}

/* ---- what it is told ----------------------------------------------------------------------------------------------- */

void worker_pass(struct user *user)
{
	struct post post = {.kind = POST_CONNECTION};
	unsigned gone = 0;
	while (gone < user->npending && !post_send(user->worker.channel, &post, user->pending[gone].fd)) {
		undertaker_bury(&user->users->undertaker, user->pending[gone++].fd);
		user->passed++;
	}
	memmove(user->pending, user->pending + gone, (user->npending - gone) * sizeof(*user->pending));
	user->npending -= gone;
}

void worker_end(struct user *user)
{
	user->state = USER_ENDING;
	shutdown(user->worker.channel, SHUT_WR);
}

static int watch_all(struct user *user)
{
	struct loop *loop = user->users->loop;
	struct spawned *w = &user->worker;
	user->pid_watch = loop_watch(loop, w->pidfd, EPOLLIN, on_pid, user);
	user->channel_watch = loop_watch(loop, w->channel, EPOLLIN, on_channel, user);
	user->ledger_watch = loop_watch(loop, w->ledger, EPOLLIN, on_ledger, user);
	user->report_watch = loop_watch(loop, w->report, EPOLLIN, on_report, user);
	user->log_watch = loop_watch(loop, w->log, EPOLLIN, on_log, user);
	return user->pid_watch && user->channel_watch && user->ledger_watch && user->report_watch && user->log_watch
		       ? 0
		       : -ENOMEM;
}

/* There may be more than go into the socket at once. */
void worker_give(struct user *user)
{
	unsigned at = 0;
	int rc = 0;
	list_for(node, &user->held) {
		const struct held *held = list_entry(node, struct held, link);
		struct post post = {.kind = POST_ARENA};
		snprintf(post.text, sizeof(post.text), "%s", held->name);
		if (rc || at++ < user->given)
			continue;
		rc = post_send(user->worker.channel, &post, held->fd);
		user->given += !rc;
	}
	struct post begin = limits(user, POST_BEGIN);
	user->begun = !rc && !post_send(user->worker.channel, &begin, -1);
}

void worker_start(struct user *user)
{
	struct users *u = user->users;
	struct err err = {{0}};
	struct spawn spawn = {user->uid, u->sources, &u->confine, u->argc, u->argv};
	int rc = spawn_worker(&spawn, &user->worker, &err);
	if (rc) {
		log_error("%s", err.text);
		user->next_ns = clock_now() + ledger_pause_ns(user->failures++);
		return;
	}
	user->state = USER_STARTING;
	user->starts++;
	user->heard_ns = clock_now();
	user->given = 0;
	user->begun = false;
	rc = watch_all(user);
	if (!rc) {
		worker_give(user);
		worker_send_limits(u);
		return;
	}
	log_error("%s: the process %d cannot be used: %s", user->name, (int)user->worker.pid, err_name(rc));
	kill(user->worker.pid, SIGKILL);
}
