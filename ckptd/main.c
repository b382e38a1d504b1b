/* ckptd: the checkpoint daemon of a node. */
#include "base/channel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "clients/room.h"
#include "cluster/room.h"
#include "control/room.h"
#include "daemon.h"
#include "dispatch/room.h"
#include "faults/room.h"
#include "job/room.h"
#include "machine/room.h"
#include "observe/room.h"
#include "reload.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "service/room.h"
#include "shutdown.h"
#include "startup.h"
#include "store/disk/disk.h"
#include "system/room.h"
#include "upkeep/room.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	TICK_IDLE_MS = 50,
	TICK_BUSY_MS = 2,
	TICK_LIMITED_MS = 10,
	TICK_REST_MS = 1000, /* nobody has given it anything to do */
	JOIN_MS = 60000,
	CHECK_MS = 2000
};

struct server {
	struct daemon daemon;
	struct connections connections;
	int listener, signals;
	int out;     /* -errno: this node is none of the cluster any more, or another daemon has its store */
	bool passed; /* the listener is the service manager's: its path stays */
	struct watch *listening;
	bool deaf; /* out of descriptors: nobody is let in until the next tick */
	int argc;
	char **argv;
};

static void take_limits(struct server *s)
{
	if (manager_limit(s->daemon.runtime.manager, &s->daemon.runtime.config))
		meter_set(&s->daemon.storage.reads, s->daemon.runtime.config.read_bandwidth);
}

static void on_connect(void *arg, uint32_t events)
{
	struct server *s = arg;
	(void)events;
	int sock = manager_accept(s->daemon.runtime.manager, s->listener);
	take_limits(s);
	if (sock >= 0) {
		connections_add(&s->connections, sock);
	} else if (sock == -EPIPE) {
		log_info("the system service wants this process to end");
		watch_modify(s->listening, 0);
		loop_stop(s->daemon.runtime.loop);
	} else if (sock != -EAGAIN && sock != -EINTR && sock != -ECONNABORTED) {
		log_warn("accept: %s: who connects waits", err_name(sock));
		s->deaf = true;
		watch_modify(s->listening, 0);
	}
}

static void reload(struct server *s)
{
	struct err err = {{0}};
	struct sources *fresh;
	int rc = options_parse(s->argc, s->argv, &fresh, &err);
	if (rc) {
		log_error("SIGHUP: the configuration stays as it is: %s", err.text);
		return;
	}
	log_info("SIGHUP: the configuration was read again");
	reload_apply(&s->daemon, fresh);
	peers_renew(&s->daemon.dispatch);
	take_limits(s);
}

static void on_signal(void *arg, uint32_t events)
{
	struct server *s = arg;
	struct signalfd_siginfo info;
	(void)events;
	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		reload(s);
		return;
	}
	log_info("signal %u: stopping", info.ssi_signo);
	loop_stop(s->daemon.runtime.loop);
}

static void on_disk(void *arg, uint32_t events)
{
	struct server *s = arg;
	(void)events;
	disk_poll(s->daemon.storage.disk, 0);
}

static void on_pool(void *arg, uint32_t events)
{
	struct server *s = arg;
	(void)events;
	pool_poll(s->daemon.runtime.pool);
	pool_poll(s->daemon.runtime.reader);
	gc_poll(s->daemon.storage.gc);
	scrub_poll(s->daemon.storage.scrub);
}

/* Somebody has given it something to do, or to keep. */
static bool in_use(struct server *s)
{
	return s->connections.count || !list_empty(&s->daemon.jobs.list) || s->daemon.jobs.formers.first ||
	       shutdown_at_work(&s->daemon);
}

/* What comes next makes some descriptor ready. */
static bool may_rest(struct server *s)
{
	const struct control *control = &s->daemon.control;
	return list_empty(&control->hosts) && !control->memberships && !s->deaf && !s->out;
}

static void after_each(void *arg)
{
	struct server *s = arg;
	outbox_deliver(&s->daemon.control);
}

/* A device writes its progress without ringing any bell: while captures run, the slots are looked at often. */
static int must_end(struct daemon *d, struct err *why)
{
	if (d->storage.lock.is_lost)
		return err_set(
			why, -EWOULDBLOCK,
			"another ckptd has the store %s: somebody has deleted the lock file of this one, which ends",
			d->runtime.config.store);
	return peers_out(&d->dispatch, why);
}

static void on_tick(void *arg)
{
	struct server *s = arg;
	bool busy = false;
	struct err why = {{0}};
	if (!s->out && (s->out = must_end(&s->daemon, &why))) {
		log_error("%s", why.text);
		loop_stop(s->daemon.runtime.loop);
	}
	if (s->deaf)
		s->deaf = watch_modify(s->listening, EPOLLIN) < 0;
	uint64_t now = clock_now();
	on_disk(s, 0); /* what has ended is seen also when its bell could not be rung */
	on_pool(s, 0);
	manager_used(s->daemon.runtime.manager,
		     s->daemon.runtime.memory.arenas + s->daemon.runtime.memory.tables +
			     s->daemon.runtime.memory.copies,
		     in_use(s), now);
	manager_turn(s->daemon.runtime.manager, now);
	space_tick(s->daemon.storage.space, now);
	machine_tick(s->daemon.runtime.machine, now);
	http_tick(s->daemon.observe.http, now);
	peers_tick(&s->daemon.dispatch, now);
	forward_tick(&s->daemon.operators);
	connections_tick(&s->connections);
	hosts_tick(&s->daemon.control, now);
	prefaults_tick(&s->daemon.jobs);
	spills_tick(&s->daemon.jobs);
	formers_tick(&s->daemon.jobs.formers, now);
	list_for_safe(node, &s->daemon.jobs.list) {
		struct job *job = list_entry(node, struct job, link);
		if (job_tick(job))
			busy |= saves_busy(&job->saves);
	}
	faults_tick(s->daemon.observe.faults);
	gc_tick(s->daemon.storage.gc);
	scrub_tick(s->daemon.storage.scrub);
	busy |= s->daemon.peers.replica && replica_busy(s->daemon.peers.replica);
	bool limited = throttle_waiting(&s->daemon.storage.writes) || !gc_idle(s->daemon.storage.gc);
	unsigned idle = limited ? TICK_LIMITED_MS : TICK_IDLE_MS;
	loop_tick(s->daemon.runtime.loop, busy ? TICK_BUSY_MS : idle, on_tick, s);
	if (!busy && !limited && !in_use(s) && may_rest(s))
		loop_rest(s->daemon.runtime.loop, TICK_REST_MS);
}

/* A batch thread does not preempt the one that wakes it: without this, the training thread that rings the doorbell in begin or
 * fence is pushed aside, on a busy machine for milliseconds. The workers inherit it. Where it is refused, nothing else changes. */
static void yield_to_training(void)
{
	(void)sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
}

static int watch_all(struct server *s)
{
	struct loop *loop = s->daemon.runtime.loop;
	s->listening = loop_watch(loop, s->listener, EPOLLIN, on_connect, s);
	bool ok = s->listening && loop_watch(loop, s->signals, EPOLLIN, on_signal, s) &&
		  loop_watch(loop, disk_event_fd(s->daemon.storage.disk), EPOLLIN, on_disk, s) &&
		  loop_watch(loop, pool_event_fd(s->daemon.runtime.pool), EPOLLIN, on_pool, s) &&
		  loop_watch(loop, pool_event_fd(s->daemon.runtime.reader), EPOLLIN, on_pool, s) &&
		  (!s->daemon.storage.gc || loop_watch(loop, gc_event_fd(s->daemon.storage.gc), EPOLLIN, on_pool, s)) &&
		  (!s->daemon.storage.scrub ||
		   loop_watch(loop, scrub_event_fd(s->daemon.storage.scrub), EPOLLIN, on_pool, s));
	return ok ? 0 : -ENOMEM;
}

/* What watches must not keep what is watched from running: an address that is taken is said and gone without. */
static int start_watching(struct daemon *d, struct err *err)
{
	const struct config *config = &d->runtime.config;
	int rc = space_new(&d->storage.place, &d->storage.lock, d->runtime.reader, &d->storage.space);
	if (rc)
		return err_set(err, rc, "no memory to watch the store");
	if (config->span_log)
		rc = spanlog_open(config->span_log, config->node, SPANLOG_FILE_MAX, &d->runtime.spanlog, err);
	if (!rc && strcmp(config->http, "off") != 0 && http_start(&d->observe, config->http, &d->observe.http, err)) {
		log_warn("no metrics and no status page: %s", err->text);
		*err = (struct err){{0}};
	}
	return rc;
}

static int open_listener(struct server *s, struct err *err)
{
	s->listener = manager_take_socket(s->daemon.runtime.manager);
	s->passed = s->listener >= 0;
	if (!s->passed)
		s->listener = channel_listen(s->daemon.runtime.config.socket, err);
	return s->listener < 0 ? s->listener : 0;
}

static bool is_to_end(struct server *s)
{
	struct signalfd_siginfo info;
	return read(s->signals, &info, sizeof(info)) == sizeof(info) && info.ssi_signo != SIGHUP;
}

/* Nothing else can begin before it is known which node this is. */
static int join(struct server *s, struct err *err)
{
	/* Another one of this name may hold its lease (control/election/members.c). */
	uint64_t wait_ms = JOIN_MS + 3 * s->daemon.runtime.config.registry_lease_ms,
		 deadline = clock_deadline(wait_ms * CLOCK_NS_PER_MS);
	struct err what = {{0}};
	int rc;
	while (!(rc = peers_join(&s->daemon.dispatch, &what))) {
		struct pollfd fds[2] = {{.fd = peers_join_fd(&s->daemon.dispatch), .events = POLLIN},
					{.fd = s->signals, .events = POLLIN}};
		if (clock_now() >= deadline)
			return err_set(err, -ETIMEDOUT, "this node has not joined the cluster within %lu s: %s",
				       (unsigned long)(wait_ms / 1000), what.text);
		poll(fds, 2, TICK_IDLE_MS);
		if ((fds[1].revents & POLLIN) && is_to_end(s))
			return err_set(err, -ECANCELED, "told to end before this node has joined the cluster: %s",
				       what.text);
	}
	return rc < 0 ? err_set(err, rc, "%s", what.text) : 0;
}

/* Nobody joins a node that nobody has looked at. */
static int check_machine(struct runtime *runtime, struct err *err)
{
	int rc = machine_new(&runtime->config, &runtime->machine, err);
	if (!rc)
		machine_first(runtime->machine, clock_deadline(CHECK_MS * CLOCK_NS_PER_MS));
	return rc;
}

static int start(struct server *s, struct err *err)
{
	s->signals = start_signals();
	start_descriptors();
	startup_umask(&s->daemon.runtime.config);
	yield_to_training();
	int rc = manager_open(&s->daemon.runtime.manager, err);
	if (!rc)
		rc = loop_new(&s->daemon.runtime.loop, err);
	if (!rc)
		rc = pool_new(0, &s->daemon.runtime.pool, err);
	packing_init(&s->daemon.storage.packing, s->daemon.runtime.pool);
	if (!rc)
		rc = pool_new(1, &s->daemon.runtime.reader, err);
	if (!rc && (rc = outbox_reserve(&s->daemon.control.outbox)))
		err_set(err, rc, "no memory for what this node tells itself");
	if (!rc && !(s->daemon.observe.faults = faults_new(&s->daemon.jobs)))
		rc = err_set(err, -ENOMEM, "no memory for faults on purpose");
	if (!rc)
		rc = peers_find(&s->daemon.dispatch, err);
	if (!rc)
		rc = join(s, err);
	if (!rc)
		rc = startup_store(&s->daemon, err);
	if (!rc)
		rc = check_machine(&s->daemon.runtime, err);
	if (!rc)
		rc = peers_open(&s->daemon.dispatch, err);
	if (!rc)
		rc = open_listener(s, err);
	if (!rc && (rc = watch_all(s)))
		err_set(err, rc, "cannot watch descriptors: %s", err_name(rc));
	if (!rc)
		rc = start_watching(&s->daemon, err);
	if (!rc)
		startup_arenas(&s->daemon);
	return rc;
}

/* A commit in flight is brought to its end, and the newest checkpoint is read back. */
static bool finish_work(struct server *s, struct shutdown *shutdown)
{
	int rc;
	while ((rc = shutdown_tick(shutdown, &s->daemon, clock_now())) == -EAGAIN) {
		struct pollfd fds[4] = {
			{.fd = s->daemon.storage.disk ? disk_event_fd(s->daemon.storage.disk) : -1, .events = POLLIN},
			{.fd = pool_event_fd(s->daemon.runtime.pool), .events = POLLIN},
			{.fd = pool_event_fd(s->daemon.runtime.reader), .events = POLLIN},
			{.fd = peers_event_fd(&s->daemon.dispatch), .events = POLLIN}};
		poll(fds, 4, TICK_IDLE_MS);
		if (s->daemon.storage.disk)
			disk_poll(s->daemon.storage.disk, 0);
		pool_poll(s->daemon.runtime.pool);
		pool_poll(s->daemon.runtime.reader);
		peers_poll(&s->daemon.dispatch);
		gc_poll(s->daemon.storage.gc);
		scrub_poll(s->daemon.storage.scrub);
	}
	return !rc;
}

static void stop(struct server *s)
{
	struct shutdown shutdown;
	manager_stopping(s->daemon.runtime.manager);
	if (s->listener >= 0 && !s->passed)
		unlink(s->daemon.runtime.config.socket);
	if (s->listener >= 0)
		close(s->listener);
	http_stop(s->daemon.observe.http);
	s->daemon.observe.http = NULL;
	shutdown_begin(&shutdown, &s->daemon, clock_now());
	connections_free(&s->connections);
	if (!finish_work(s, &shutdown)) {
		log_warn("work in flight has not ended within %d ms: leaving it", SHUTDOWN_MS);
		return; /* its memory must stay until the process is gone */
	}
	pool_free(s->daemon.runtime.reader);
	pool_free(s->daemon.runtime.pool);
	prefaults_free(&s->daemon.jobs);
	peers_close(&s->daemon.dispatch); /* its copies were looked at by workers */
	spills_free(&s->daemon.jobs);
	startup_close(&s->daemon);
	list_for_safe(node, &s->daemon.jobs.list)
		job_free(list_entry(node, struct job, link));
	formers_free(&s->daemon.jobs.formers);
	hosts_free(&s->daemon.control);
	packing_free(&s->daemon.storage.packing);
	spanlog_close(s->daemon.runtime.spanlog);
	space_free(s->daemon.storage.space);
	machine_free(s->daemon.runtime.machine);
	disk_free(s->daemon.storage.disk);
	loop_free(s->daemon.runtime.loop);
	manager_free(s->daemon.runtime.manager);
	faults_free(s->daemon.observe.faults);
	if (s->signals >= 0)
		close(s->signals);
	if (s->daemon.runtime.sources != s->daemon.runtime.first_sources)
		sources_free(s->daemon.runtime.sources);
	sources_free(s->daemon.runtime.first_sources);
}

static void say_ready(struct server *s)
{
	const struct config *config = &s->daemon.runtime.config;
	char text[2 * SETTING_TEXT_MAX];
	snprintf(text, sizeof(text), "%s listens on %s, store %s", config->node,
		 manager_is_worker() ? "what a system service passes"
		 : s->passed         ? "the socket that the service manager passes"
				     : config->socket,
		 config->store ? config->store : "none (memory only)");
	log_info("%s", text);
	manager_ready(s->daemon.runtime.manager, text);
}

int main(int argc, char **argv)
{
	struct server s = {.listener = -1, .signals = -1};
	struct err err = {{0}};
	log_init("ckptd");
	daemon_init(&s.daemon);
	s.daemon.runtime.started_ns = clock_now();
	connections_init(&s.connections, &s.daemon.operators);
	s.argc = argc;
	s.argv = argv;
	int rc = options_parse(argc, argv, &s.daemon.runtime.sources, &err);
	if (rc > 0)
		return 0;
	if (rc) {
		fprintf(stderr, "ckptd: %s\n", err.text);
		return 2;
	}
	s.daemon.runtime.first_sources = s.daemon.runtime.sources;
	sources_fill(s.daemon.runtime.sources, SCOPE_NODE, NULL, &s.daemon.runtime.config);
	if (s.daemon.runtime.config.system && !manager_is_worker())
		return warden_run(argc, argv, s.daemon.runtime.sources);
	throttle_init(&s.daemon.storage.writes, &s.daemon.runtime.config.write_bandwidth);
	meter_init(&s.daemon.storage.reads, s.daemon.runtime.config.read_bandwidth);
	rc = start(&s, &err);
	if (!rc) {
		say_ready(&s);
		if (s.daemon.observe.http)
			log_info("status page and metrics at http://%s/", http_address(s.daemon.observe.http));
		if (!strcmp(disk_engine(s.daemon.storage.disk), "threads"))
			log_info("reading and writing with threads, not io_uring: the same, at more processor time");
		loop_tick(s.daemon.runtime.loop, TICK_IDLE_MS, on_tick, &s);
		loop_after_each(s.daemon.runtime.loop, after_each, &s);
		rc = loop_run(s.daemon.runtime.loop);
		if (!rc && s.out)
			rc = err_set(&err, s.out, "%s",
				     s.out == -EWOULDBLOCK ? "this daemon has no store any more"
							   : "this node is no member of its cluster any more");
		else if (rc)
			err_set(&err, rc, "event loop: %s", err_name(rc));
	}
	if (rc)
		log_error("%s", err.text);
	stop(&s);
	waits_free(&s.daemon.operators);
	return rc ? (rc == -EWOULDBLOCK ? 11 : 1) : 0;
}
