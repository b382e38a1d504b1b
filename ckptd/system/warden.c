#include "warden.h"

#include "base/channel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "guests.h"
#include "runtime/room.h"
#include "service/room.h"
#include "template.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TICK_MS = 50, TICK_IDLE_MS = 1000, STOP_MS = 15000 };

struct warden {
	struct users users;
	struct guests guests;
	int listener, signals;
	bool passed; /* the listener is the service manager's */
	bool deaf;   /* out of descriptors: nobody is let in until the next tick */
	bool stopping;
	uint64_t stop_deadline;
	struct watch *listening;
	struct sources *first_sources; /* the texts of config are in there */
};

/* ---- events -------------------------------------------------------------------------------------------------------- */

static void on_tick(void *arg);

static void on_connect(void *arg, uint32_t events)
{
	struct warden *w = arg;
	struct peer peer;
	(void)events;
	int sock = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock < 0) {
		if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
			return;
		log_warn("accept: %s: who connects waits", err_name(errno));
		w->deaf = true;
		watch_modify(w->listening, 0);
	} else if (channel_peer(sock, &peer)) {
		undertaker_bury(&w->users.undertaker, sock);
	} else if (!peer.uid) {
		guests_add(&w->guests, sock);
	} else {
		users_connection(&w->users, peer.uid, sock);
		loop_tick(w->users.loop, TICK_MS, on_tick, w);
	}
}

static void reload(struct warden *w)
{
	struct err err = {{0}};
	struct sources *fresh;
	struct config config;
	int rc = options_parse(w->users.argc, w->users.argv, &fresh, &err);
	if (rc) {
		log_error("SIGHUP: the configuration stays as it is: %s", err.text);
		return;
	}
	sources_fill(fresh, SCOPE_NODE, NULL, &config);
	/* Texts stay those of the start; sections of users count for the workers that are made from now on. */
	w->users.config.memory_limit = config.memory_limit;
	w->users.config.write_bandwidth = config.write_bandwidth;
	w->users.config.read_bandwidth = config.read_bandwidth;
	w->users.config.max_users = config.max_users;
	w->users.config.user_linger_ms = config.user_linger_ms;
	if (w->users.sources != w->first_sources)
		sources_free(w->users.sources);
	w->users.sources = fresh;
	log_info("SIGHUP: the configuration was read again");
	users_reload(&w->users);
}

static void on_signal(void *arg, uint32_t events)
{
	struct warden *w = arg;
	struct signalfd_siginfo info;
	(void)events;
	if (read(w->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		reload(w);
		return;
	}
	log_info("signal %u: stopping", info.ssi_signo);
	manager_stopping(w->users.manager);
	watch_modify(w->listening, 0);
	w->stopping = true;
	w->stop_deadline = clock_deadline(STOP_MS * CLOCK_NS_PER_MS);
	users_stop(&w->users);
}

static void on_tick(void *arg)
{
	struct warden *w = arg;
	if (w->deaf)
		w->deaf = watch_modify(w->listening, EPOLLIN) < 0;
	manager_turn(w->users.manager, clock_now());
	guests_tick(&w->guests);
	bool some = users_tick(&w->users);
	loop_tick(w->users.loop, some || w->stopping ? TICK_MS : TICK_IDLE_MS, on_tick, w);
	if (w->stopping && (!users_alive(&w->users) || clock_now() >= w->stop_deadline))
		loop_stop(w->users.loop);
}

/* ---- beginning and end --------------------------------------------------------------------------------------------- */

static int check_path(const char *what, const char *path, struct err *err)
{
	bool per_user = false;
	int rc = path ? template_check(path, &per_user, err) : 0;
	if (!rc && path && !per_user)
		rc = err_set(err, -EINVAL,
			     "%s is one for all users: put %%u, which stands for the name, into it, as in "
			     "/var/lib/ckptd/%%u",
			     path);
	return rc ? err_prefix(err, rc, "%s", what) : 0;
}

static int check(const struct config *config, struct err *err)
{
	if (geteuid() != 0)
		return err_set(err, -EPERM, "--system needs root, to become each user; your own ckptd needs nothing");
	if (config->cluster)
		return err_set(
			err, -EINVAL,
			"cluster: %s: a service for all users takes no part in a cluster: a node has one address "
			"there, and each user a process; give each a ckptd of their own",
			config->cluster);
	int rc = check_path("store", config->store, err);
	return rc ? rc : check_path("span-log", config->span_log, err);
}

static int open_listener(struct warden *w, struct err *err)
{
	const char *path = w->users.config.socket;
	w->listener = manager_take_socket(w->users.manager);
	w->passed = w->listener >= 0;
	if (w->passed)
		return 0;
	w->listener = channel_listen(path, err);
	if (w->listener < 0)
		return w->listener;
	return chmod(path, 0666) ? err_set(err, -errno, "socket %s: %s", path, err_name(errno)) : 0;
}

static int start(struct warden *w, struct err *err)
{
	struct users *u = &w->users;
	w->signals = start_signals();
	start_descriptors();
	int rc = check(&u->config, err);
	if (!rc)
		rc = manager_open(&u->manager, err);
	if (!rc)
		rc = loop_new(&u->loop, err);
	if (!rc)
		rc = confine_open(&u->confine, "/sys/fs/cgroup", err);
	if (!rc)
		rc = open_listener(w, err);
	if (rc)
		return rc;
	w->listening = loop_watch(u->loop, w->listener, EPOLLIN, on_connect, w);
	if (!w->listening || !loop_watch(u->loop, w->signals, EPOLLIN, on_signal, w))
		return err_set(err, -ENOMEM, "cannot watch descriptors");
	users_retake(u);
	return 0;
}

static void stop(struct warden *w)
{
	if (w->listener >= 0 && !w->passed)
		unlink(w->users.config.socket);
	cleanup_close(&w->listener);
	guests_free(&w->guests);
	users_free(&w->users);
	loop_free(w->users.loop);
	manager_free(w->users.manager);
	cleanup_close(&w->signals);
	if (w->users.sources != w->first_sources)
		sources_free(w->users.sources);
	sources_free(w->first_sources);
}

static void say_ready(struct warden *w)
{
	char text[2 * SETTING_TEXT_MAX];
	const struct config *c = &w->users.config;
	snprintf(text, sizeof(text), "%s serves all users on %s, store %s", c->node,
		 w->passed ? "the socket that the service manager passes" : c->socket,
		 c->store ? c->store : "none (memory only)");
	log_info("%s", text);
	if (!w->users.confine.folder[0])
		log_info("no control group is delegated: users are not held apart by the kernel's limits");
	if (strcmp(c->http, "off") != 0)
		log_warn("a system service has no status page: http = %s is not used", c->http);
	manager_ready(w->users.manager, text);
}

int warden_run(int argc, char **argv, struct sources *sources)
{
	struct warden *w = calloc(1, sizeof(*w));
	struct err err = {{0}};
	if (!w)
		return 1;
	w->listener = w->signals = -1;
	w->first_sources = w->users.sources = sources;
	w->users.argc = argc;
	w->users.argv = argv;
	sources_fill(sources, SCOPE_NODE, NULL, &w->users.config);
	users_init(&w->users);
	w->guests = (struct guests){.users = &w->users, .started_ns = clock_now()};
	int rc = start(w, &err);
	if (!rc) {
		say_ready(w);
		loop_tick(w->users.loop, TICK_MS, on_tick, w);
		rc = loop_run(w->users.loop);
		if (rc)
			err_set(&err, rc, "event loop: %s", err_name(rc));
	}
	if (rc)
		log_error("%s", err.text);
	stop(w);
	free(w);
	return rc ? 1 : 0;
}
