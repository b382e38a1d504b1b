#include "launcher/launch.h"

#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#define DAEMON_END_NS (30 * CLOCK_NS_PER_S)
#define OUTPUT_END_NS (5 * CLOCK_NS_PER_S)
#define LAST_WORD_NS (2 * CLOCK_NS_PER_S)
#define LEFTOVERS_NS (5 * CLOCK_NS_PER_S)
/* Nothing needs it: a bound in case that an event was missed. */
#define IDLE_NS (5 * CLOCK_NS_PER_S)

/* ---- messages -------------------------------------------------------------------------------------------------- */

void launch_say(struct launch *launch, const char *fmt, ...)
{
	if (launch->options.quiet)
		return;
	va_list ap;
	va_start(ap, fmt);
	sink_say(&launch->err, fmt, ap);
	va_end(ap);
}

void launch_warn(struct launch *launch, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	sink_say(&launch->err, fmt, ap);
	va_end(ap);
}

void launch_give_up(struct launch *launch, int code, const char *fmt, ...)
{
	if (launch->failed)
		return; /* the first reason is the one that counts */
	launch->failed = true;
	launch->failure = code;
	va_list ap;
	va_start(ap, fmt);
	sink_say(&launch->err, fmt, ap);
	va_end(ap);
	stop_begin(launch, STOP_TERM, clock_now());
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

int launch_take_signals(int *signals, struct err *err)
{
	sigset_t set;
	struct sigaction hangup;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (sigaction(SIGHUP, NULL, &hangup) || hangup.sa_handler != SIG_IGN) /* nohup */
		sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	*signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *signals < 0 ? err_set(err, -errno, "signalfd: %s", err_name(errno)) : 0;
}

int launch_init(struct launch *launch, const struct launch_options *options, struct err *err)
{
	launch->options = *options;
	launch->begin_ns = clock_now();
	launch->heard_ns = launch->begin_ns;
	launch->stop_next_ns = UINT64_MAX;
	launch->out.fd = STDOUT_FILENO;
	launch->err.fd = STDERR_FILENO;
	launch->keeper.proc.pidfd = -1;
	held_init(&launch->held);
	launch->waits = options->least;
	launch->world = launch->waits ? 0 : options->nodes * options->processes;
	launch->nranks = launch->waits ? 0 : options->processes;
	uplink_init(&launch->link, launch->keeper.socket, options->job, launch->world, launch->nranks);
	launch->link.hello.spread = options->nodes > 1;
	launch->ranks = calloc(WIRE_LOCAL_MAX, sizeof(*launch->ranks));
	if (!launch->ranks)
		return err_set(err, -ENOMEM, "out of memory");
	for (uint32_t r = 0; r < launch->nranks; r++)
		ranks_init(&launch->ranks[r], options->node * options->processes + r);
	proc_become_subreaper();
	return 0;
}

void launch_free(struct launch *launch)
{
	uplink_free(&launch->link);
	held_free(&launch->held);
	sink_free(&launch->out);
	sink_free(&launch->err);
	free(launch->ranks);
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static void reap(struct launch *launch)
{
	struct ended ended[WIRE_LOCAL_MAX];
	uint32_t n = 0;
	for (pid_t pid; (pid = proc_next_ended());) {
		if (pid == launch->keeper.proc.pid)
			daemon_ended(launch, clock_now());
		else if (ranks_reap(launch, pid, &ended[n]))
			n++;
		else if (!dismissed_reap(&launch->dismissed, pid))
			proc_reap(NULL, pid); /* it came to us when its parent died */
	}
	ranks_settle(launch, ended, n, clock_now());
}

static void read_signals(struct launch *launch)
{
	struct signalfd_siginfo info;
	while (read(launch->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			stop_signalled(launch, (int)info.ssi_signo, clock_now());
	}
	reap(launch);
}

/* What is polled: signals, the daemon, who attends, our outputs, then the streams of the ranks. */
enum { AT_SIGNALS, AT_LINK, AT_STDIN, AT_OUT, AT_ERR, AT_STREAMS, FDS_MAX = AT_STREAMS + 2 * WIRE_LOCAL_MAX };

static nfds_t fill(const struct launch *launch, struct pollfd *fds)
{
	nfds_t n = AT_STREAMS;
	fds[AT_SIGNALS] = (struct pollfd){.fd = launch->signals, .events = POLLIN};
	fds[AT_LINK] = (struct pollfd){.fd = launch->link.sock, .events = POLLIN};
	fds[AT_STDIN] = (struct pollfd){.fd = launch->options.attended ? STDIN_FILENO : -1, .events = POLLIN};
	fds[AT_OUT] = sink_poll(&launch->out);
	fds[AT_ERR] = sink_poll(&launch->err);
	for (uint32_t r = 0; r < launch->nranks; r++) {
		fds[n++] = stream_poll(&launch->ranks[r].out);
		fds[n++] = stream_poll(&launch->ranks[r].err);
	}
	return n;
}

static int timeout(const struct launch *launch)
{
	uint64_t now = clock_now(), next = now + IDLE_NS;
	next = min_u64(next, uplink_next(&launch->link));
	next = min_u64(next, ranks_next(launch));
	next = min_u64(next, stay_next(launch));
	next = min_u64(next, hang_next(launch));
	next = min_u64(next, launch->stop_next_ns);
	next = min_u64(next, dismissed_next(&launch->dismissed));
	next = min_u64(next, faults_next(launch, now));
	if (launch->link.state == UPLINK_UP)
		next = min_u64(next, recovery_next(&launch->recoveries));
	if (launch->keeper.owned && !launch->keeper.proc.pid)
		next = min_u64(next, launch->keeper.start_at);
	return clock_ms_until(next);
}

static void dispatch(struct launch *launch, const struct pollfd *fds)
{
	if (fds[AT_OUT].revents)
		sink_flush(&launch->out);
	if (fds[AT_ERR].revents)
		sink_flush(&launch->err);
	for (uint32_t r = 0; r < launch->nranks; r++) {
		if (fds[AT_STREAMS + 2 * r].revents)
			stream_read(&launch->ranks[r].out);
		if (fds[AT_STREAMS + 2 * r + 1].revents)
			stream_read(&launch->ranks[r].err);
	}
	sink_flush(&launch->out);
	sink_flush(&launch->err);
	/* What the daemon says of a death comes after what we see of it. */
	if (fds[AT_SIGNALS].revents)
		read_signals(launch);
	if (fds[AT_LINK].revents)
		daemon_receive(launch, clock_now());
	if (fds[AT_STDIN].revents)
		stop_hear(launch, clock_now());
}

static void loop(struct launch *launch)
{
	struct pollfd fds[FDS_MAX];
	while (!ranks_over(launch)) {
		uint64_t now = clock_now();
		daemon_tick(launch, now);
		ranks_tick(launch, now);
		stay_tick(launch, now);
		hang_tick(launch, now);
		faults_tick(launch, now);
		stop_tick(launch, now);
		dismissed_tick(&launch->dismissed, now);
		if (ranks_over(launch))
			return;
		nfds_t n = fill(launch, fds);
		if (poll(fds, n, timeout(launch)) > 0)
			dispatch(launch, fds);
	}
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

static int exit_code(const struct launch *launch)
{
	if (launch->failed)
		return launch->failure;
	if (launch->stop_signal == SIGINT)
		return EXIT_CANCELLED;
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (!launch->ranks[r].ended || launch->ranks[r].status)
			return EXIT_FAILED;
	return EXIT_OK;
}

static void say_failed(struct launch *launch)
{
	char text[80];
	for (uint32_t r = 0; r < launch->nranks && !launch->failed; r++) {
		const struct launch_rank *rank = &launch->ranks[r];
		if (rank->ended && rank->status)
			launch_warn(launch, "rank %u %s", rank->id, proc_status_text(text, sizeof(text), rank->status));
	}
}

/* A job that ends right after a recovery is over before the daemon was asked how that went. What else the daemon says is not heard any
 * more. */
static void hear_last_word(struct launch *launch)
{
	uint64_t deadline = clock_deadline(LAST_WORD_NS);
	recovery_hurry(&launch->recoveries);
	if (launch->link.state == UPLINK_UP && recovery_should_ask(&launch->recoveries, clock_now()))
		daemon_ask(launch);
	while (launch->link.state == UPLINK_UP && recovery_awaits(&launch->recoveries) && clock_now() < deadline) {
		struct pollfd fd = {.fd = launch->link.sock, .events = POLLIN};
		poll(&fd, 1, clock_ms_until(deadline));
		while (!uplink_recv(&launch->link)) {
			const struct frame *f = &launch->link.frame;
			if (f->type == WIRE_STATUS)
				recovery_answer(&launch->recoveries, (const char *)f->body, f->len,
						launch->options.job);
			frame_free(&launch->link.frame);
		}
	}
}

int launch_run(struct launch *launch)
{
	launch->memory_kills = cgroup_memory_kills();
	loop(launch);
	stay_end(launch);
	hear_last_word(launch);
	say_failed(launch);
	uplink_free(&launch->link);
	keeper_stop(&launch->keeper, clock_deadline(DAEMON_END_NS));
	if (!proc_kill_all(clock_deadline(LEFTOVERS_NS)))
		launch_warn(launch, "processes that the ranks have started do not end: they are left behind");
	uint64_t deadline = clock_deadline(OUTPUT_END_NS);
	sink_drain(&launch->out, deadline);
	sink_drain(&launch->err, deadline);
	return exit_code(launch);
}
