#include "users.h"

#include "base/channel.h"
#include "base/clock.h"
#include "base/log.h"
#include "format/message/wire.h"
#include "runtime/room.h"
#include "service/room.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PENDING_MS = 10000, PENDING_FAILING_MS = 2000, SILENT_MS = 60000, REFUSED_MS = 5000, NOTE_MS = 1000 };

void users_init(struct users *u)
{
	list_init(&u->list);
	u->count = 0;
	u->stopping = false;
	undertaker_init(&u->undertaker);
}

/* ---- saying no ----------------------------------------------------------------------------------------------------- */

/* Whoever connects says HELLO with the number 1. */
void users_refuse(struct users *u, int sock, int rc, const char *text)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_error m = {.rc = rc};
	snprintf(m.text, sizeof(m.text), "%s", text);
	if (!wire_error_encode(&m, &body))
		(void)channel_send(sock, WIRE_ERROR, 1, body.data, body.len, NULL, 0, 0);
	undertaker_bury(&u->undertaker, sock);
}

void users_note(struct user *user, const char *text)
{
	uint64_t now = clock_now();
	if (user->notes_ns && now < user->notes_ns + NOTE_MS * CLOCK_NS_PER_MS)
		return;
	user->notes_ns = now;
	log_warn("%s: %s", user->name, text);
}

static void refuse(struct user *user, int sock, int rc, const char *text)
{
	char note[320];
	snprintf(note, sizeof(note), "a connection is refused: %s", text);
	users_note(user, note);
	users_refuse(user->users, sock, rc, text);
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static struct user *find(struct users *u, uid_t uid)
{
	list_for(node, &u->list)
		if (list_entry(node, struct user, link)->uid == uid)
			return list_entry(node, struct user, link);
	return NULL;
}

static void forget(struct user *user)
{
	list_remove(&user->link);
	user->users->count--;
	free(user);
}

static bool idle(const struct user *user)
{
	return user->state == USER_RESTING && !user->npending && !user->nheld;
}

/* A user without anything is known only for as long as the last failure counts. */
static bool make_room(struct users *u)
{
	if (u->count < u->config.max_users)
		return true;
	list_for_safe(node, &u->list) {
		struct user *user = list_entry(node, struct user, link);
		if (!idle(user))
			continue;
		forget(user);
		return true;
	}
	return false;
}

static struct user *enter(struct users *u, uid_t uid)
{
	struct user *user = find(u, uid);
	if (user || !make_room(u))
		return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	*user = (struct user){.users = u, .uid = uid};
	user->worker = (struct spawned){.pidfd = -1, .channel = -1, .ledger = -1, .report = -1, .log = -1};
	snprintf(user->name, sizeof(user->name), "%u", uid);
	list_init(&user->held);
	list_push(&u->list, &user->link);
	u->count++;
	return user;
}

/* ---- connections --------------------------------------------------------------------------------------------------- */

void users_connection(struct users *u, uid_t uid, int sock)
{
	char text[128];
	struct user *user = u->stopping ? NULL : enter(u, uid);
	uint64_t now = clock_now();
	if (!user) {
		snprintf(text, sizeof(text), "this service has %lu users already: raise --max-users",
			 (unsigned long)u->config.max_users);
		users_refuse(u, sock, -EAGAIN, u->stopping ? "this service is ending" : text);
	} else if (user->refused && now < user->next_ns) {
		refuse(user, sock, -EPERM, user->why);
	} else if (user->npending == PENDING_MAX) {
		refuse(user, sock, -EAGAIN, "too many connections wait to be served");
	} else {
		user->refused = false;
		user->pending[user->npending++] = (struct pending){sock, now};
		if (user->state == USER_SERVED)
			worker_pass(user);
		else if (user->state == USER_RESTING && now >= user->next_ns)
			worker_start(user);
	}
}

static void names_of_served(const struct users *u, char *dst, size_t size)
{
	size_t at = 0;
	dst[0] = '\0';
	list_for(node, &u->list) {
		const struct user *user = list_entry(node, struct user, link);
		if (user->state == USER_SERVED && at < size)
			at += (size_t)snprintf(dst + at, size - at, "%s%s", at ? ", " : "", user->name);
	}
}

int users_visit(struct users *u, const char *name, int sock, struct err *err)
{
	char names[256], number[16];
	list_for(node, &u->list) {
		struct user *user = list_entry(node, struct user, link);
		snprintf(number, sizeof(number), "%u", user->uid);
		if (user->state != USER_SERVED || (strcmp(name, user->name) != 0 && strcmp(name, number) != 0))
			continue;
		if (user->npending == PENDING_MAX)
			return err_set(err, -EAGAIN, "the process of user %s takes no connections", name);
		user->pending[user->npending++] = (struct pending){sock, clock_now()};
		worker_pass(user);
		return 0;
	}
	names_of_served(u, names, sizeof(names));
	return err_set(err, -ENOENT, "user %s has no process here; served are: %s", name, *names ? names : "none");
}

/* ---- time ---------------------------------------------------------------------------------------------------------- */

/* Who connects is told soon what keeps a worker from coming up. */
static bool waited(const struct user *user, const struct pending *pending, uint64_t now)
{
	uint64_t ms = user->failures > 1 ? PENDING_FAILING_MS : PENDING_MS;
	return user->refused || now > pending->since + ms * CLOCK_NS_PER_MS;
}

static void expire_pending(struct user *user, uint64_t now)
{
	unsigned gone = 0;
	for (; gone < user->npending && waited(user, &user->pending[gone], now); gone++)
		refuse(user, user->pending[gone].fd, user->refused ? -EPERM : -EAGAIN,
		       *user->why ? user->why : "the process of this user does not come up");
	memmove(user->pending, user->pending + gone, (user->npending - gone) * sizeof(*user->pending));
	user->npending -= gone;
}

static void look_at(struct user *user, uint64_t now)
{
	expire_pending(user, now);
	if (user->state == USER_STARTING && !user->begun)
		worker_give(user);
	if (user->state == USER_SERVED && user->npending)
		worker_pass(user);
	if (user->state == USER_RESTING && (user->npending || user->nheld) && now >= user->next_ns &&
	    !user->users->stopping)
		worker_start(user);
	if (user->state != USER_RESTING && now > user->heard_ns + SILENT_MS * CLOCK_NS_PER_MS) {
		log_warn("%s: the process %d has not turned for %d s: it is killed", user->name, (int)user->worker.pid,
			 SILENT_MS / 1000);
		user->heard_ns = now;
		syscall(SYS_pidfd_send_signal, user->worker.pidfd, SIGKILL, NULL, 0);
	}
}

bool users_tick(struct users *u)
{
	bool some = false;
	uint64_t now = clock_now();
	undertaker_tick(&u->undertaker);
	list_for_safe(node, &u->list) {
		struct user *user = list_entry(node, struct user, link);
		look_at(user, now);
		if (idle(user) && now > user->next_ns + REFUSED_MS * CLOCK_NS_PER_MS)
			forget(user);
		else
			some |= user->state != USER_RESTING || user->npending || user->nheld;
	}
	return some;
}

void users_reload(struct users *u)
{
	list_for(node, &u->list) {
		const struct user *user = list_entry(node, struct user, link);
		if (user->state == USER_SERVED)
			syscall(SYS_pidfd_send_signal, user->worker.pidfd, SIGHUP, NULL, 0);
	}
	worker_send_limits(u);
}

/* ---- arenas of an earlier incarnation ------------------------------------------------------------------------------------- */

void users_retake(struct users *u)
{
	char *name;
	int fd;
	while (manager_take_named(u->manager, &name, &fd)) {
		char *rest = NULL;
		unsigned long uid = strtoul(name, &rest, 10);
		struct user *user =
			rest != name && *rest == '/' && uid && uid < UINT32_MAX ? enter(u, (uid_t)uid) : NULL;
		struct held *held = user && manager_names_arena(rest + 1) && strlen(rest + 1) < HELD_NAME_BYTES
					    ? calloc(1, sizeof(*held))
					    : NULL;
		if (held) {
			snprintf(held->name, sizeof(held->name), "%s", rest + 1);
			held->fd = fd;
			list_push(&user->held, &held->link);
			user->nheld++;
		} else {
			log_warn("the service manager passes '%s', which is no arena of a user: it is not used", name);
			manager_drop_named(u->manager, name);
			undertaker_bury(&u->undertaker, fd);
		}
		free(name);
	}
}

/* ---- the end ------------------------------------------------------------------------------------------------------- */

void users_stop(struct users *u)
{
	u->stopping = true;
	list_for(node, &u->list) {
		struct user *user = list_entry(node, struct user, link);
		while (user->npending)
			users_refuse(u, user->pending[--user->npending].fd, -EAGAIN, "this service is ending");
		if (user->state != USER_RESTING)
			worker_end(user);
	}
}

bool users_alive(const struct users *u)
{
	list_for(node, &u->list)
		if (list_entry(node, struct user, link)->state != USER_RESTING)
			return true;
	return false;
}

void users_free(struct users *u)
{
	list_for_safe(node, &u->list) {
		struct user *user = list_entry(node, struct user, link);
		if (user->worker.pidfd >= 0)
			syscall(SYS_pidfd_send_signal, user->worker.pidfd, SIGKILL, NULL, 0);
		for (struct list *held; (held = list_pop(&user->held));)
			free(list_entry(held, struct held, link));
		forget(user);
	}
	undertaker_free(&u->undertaker);
}
