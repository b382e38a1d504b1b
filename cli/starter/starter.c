#include "starter/starter.h"
#include "frame/output.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

/* What the launchers take at most after their grace: SIGTERM and SIGKILL to ranks, the last word of the daemon; and the way back. */
#define END_NS (60 * CLOCK_NS_PER_S)
#define KILLED_NS (10 * CLOCK_NS_PER_S)
#define ATTEND_NS (15 * CLOCK_NS_PER_S)
/* What a launcher that failed within this before the end says of the job. */
#define LAST_NS (60 * CLOCK_NS_PER_S)
#define OUTPUT_END_NS (5 * CLOCK_NS_PER_S)
/* Nothing needs it: a bound in case that an event was missed. */
#define IDLE_NS (5 * CLOCK_NS_PER_S)

/* ---- messages -------------------------------------------------------------------------------------------------- */

void starter_say(struct starter *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	sink_say(&s->err, fmt, ap);
	va_end(ap);
}

/* ---- the end of the job ---------------------------------------------------------------------------------------- */

void starter_ask(struct starter *s, char wish)
{
	if (!s->asked)
		s->kill_at = clock_deadline(s->grace_ns + END_NS);
	s->asked = wish;
	for (uint32_t i = 0; i < s->nnodes; i++) {
		struct starter_node *node = &s->nodes[i];
		node_ask(node, wish);
		if (node->stand == NODE_WAITING)
			node->stand = NODE_ENDED;
	}
}

void starter_give_up(struct starter *s, const char *fmt, ...)
{
	if (s->failed)
		return; /* the first reason is the one that counts */
	va_list ap;
	va_start(ap, fmt);
	sink_say(&s->err, fmt, ap);
	va_end(ap);
	s->failed = true;
	starter_ask(s, 'T');
}

/* First the remote shells are killed; one that does not even die of that is left. */
static void kill_late(struct starter *s, uint64_t now)
{
	if (now < s->kill_at)
		return;
	for (uint32_t i = 0; i < s->nnodes; i++) {
		struct starter_node *node = &s->nodes[i];
		if (node->stand != NODE_RUNNING)
			continue;
		if (!s->killed)
			starter_say(s, "%s: its launcher has not ended: it is left behind", node->host);
		proc_signal(&node->proc, SIGKILL);
		if (s->killed)
			node->stand = NODE_ENDED;
		s->failed = true;
	}
	s->killed = true;
	s->kill_at = now + KILLED_NS;
}

/* A launcher that failed long before the end was one that the job did without. */
static int outcome(struct starter *s, uint64_t now)
{
	uint32_t done = 0;
	bool done_without = s->elastic && !s->asked && now - s->code_ns > LAST_NS;
	for (uint32_t i = 0; i < s->nnodes; i++)
		done += s->nodes[i].done;
	if (s->failed)
		return EXIT_FAILED;
	if (s->code && !done_without)
		return s->code;
	if (done && (s->elastic || done == s->nnodes))
		return EXIT_OK;
	starter_say(s, "of %u nodes %u have said how the job ended there", s->nnodes, done);
	return s->asked == 'I' ? EXIT_CANCELLED : EXIT_FAILED;
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static uint32_t count(const struct starter *s, enum node_stand stand)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->nnodes; i++)
		n += s->nodes[i].stand == stand;
	return n;
}

/* A node that cannot be reached is not waited for when the job has ended on the others. */
static bool over(const struct starter *s)
{
	return !count(s, NODE_RUNNING) && (!count(s, NODE_WAITING) || s->finished);
}

static void start_due(struct starter *s, uint64_t now)
{
	for (uint32_t i = 0; i < s->nnodes; i++)
		if (s->nodes[i].stand == NODE_WAITING && s->nodes[i].start_at <= now)
			node_start(s, &s->nodes[i], now);
}

/* They end when they hear nothing. */
static void attend(struct starter *s, uint64_t now)
{
	if (now < s->beat_at)
		return;
	for (uint32_t i = 0; i < s->nnodes; i++)
		node_ask(&s->nodes[i], '.');
	s->beat_at = now + ATTEND_NS;
}

static void reap(struct starter *s)
{
	for (pid_t pid; (pid = proc_next_ended());) {
		uint32_t i = 0;
		while (i < s->nnodes && s->nodes[i].proc.pid != pid)
			i++;
		if (i < s->nnodes)
			node_ended(s, &s->nodes[i], clock_now());
		else
			proc_reap(NULL, pid);
	}
}

static void read_signals(struct starter *s)
{
	struct signalfd_siginfo info;
	while (read(s->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (!s->asked)
			starter_say(s, "SIG%s: the job ends on all nodes%s", sigabbrev_np((int)info.ssi_signo),
				    info.ssi_signo == SIGINT ? " (SIGINT again: at once)" : " (SIGINT: at once)");
		starter_ask(s, info.ssi_signo == SIGINT ? 'I' : 'T');
	}
	reap(s);
}

/* What is polled: signals, our outputs, then the streams of the nodes. */
enum { AT_SIGNALS, AT_OUT, AT_ERR, AT_STREAMS };

static void wait_for_events(struct starter *s, struct pollfd *fds)
{
	nfds_t n = AT_STREAMS;
	uint64_t next = min_u64(clock_now() + IDLE_NS, s->kill_at);
	fds[AT_SIGNALS] = (struct pollfd){.fd = s->signals, .events = POLLIN};
	fds[AT_OUT] = sink_poll(&s->out);
	fds[AT_ERR] = sink_poll(&s->err);
	for (uint32_t i = 0; i < s->nnodes; i++) {
		if (s->nodes[i].stand == NODE_WAITING)
			next = min_u64(next, s->nodes[i].start_at);
		fds[n++] = stream_poll(&s->nodes[i].out);
		fds[n++] = stream_poll(&s->nodes[i].err);
	}
	if (poll(fds, n, clock_ms_until(next)) <= 0)
		return;
	for (uint32_t i = 0; i < s->nnodes; i++) {
		if (fds[AT_STREAMS + 2 * i].revents)
			stream_read(&s->nodes[i].out);
		if (fds[AT_STREAMS + 2 * i + 1].revents)
			stream_read(&s->nodes[i].err);
	}
	sink_flush(&s->out);
	sink_flush(&s->err);
	if (fds[AT_SIGNALS].revents)
		read_signals(s);
}

static int loop(struct starter *s)
{
	AUTO_FREE struct pollfd *fds = calloc(AT_STREAMS + 2 * (size_t)s->nnodes, sizeof(*fds));
	if (!fds)
		return EXIT_FAILED;
	for (;;) {
		uint64_t now = clock_now();
		start_due(s, now);
		kill_late(s, now);
		attend(s, now);
		if (over(s))
			return outcome(s, now);
		wait_for_events(s, fds);
	}
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void end(struct starter *s)
{
	proc_kill_all(clock_deadline(KILLED_NS));
	uint64_t deadline = clock_deadline(OUTPUT_END_NS);
	sink_drain(&s->out, deadline);
	sink_drain(&s->err, deadline);
	sink_free(&s->out);
	sink_free(&s->err);
	free(s->nodes);
	free(s->names);
	shell_free(&s->shell);
	free(s->here);
}

/* A node may be started again long after this program was replaced by another version. */
static int look_around(struct starter *s)
{
	ssize_t n = readlink("/proc/self/exe", s->self, sizeof(s->self) - 1);
	s->here = getcwd(NULL, 0);
	if (n < 0 || !s->here)
		return cli_fail(s->cli, EXIT_FAILED, "%s: %s", n < 0 ? "/proc/self/exe" : "the working directory",
				err_name(errno));
	s->self[n] = 0;
	return EXIT_OK;
}

/* Each node takes four. The remote shells get the limit that was found: some programs go through all that may be open. */
static int make_room(struct starter *s)
{
	enum { OF_A_NODE = 4, OTHERS = 32 };
	rlim_t wanted = (rlim_t)s->nnodes * OF_A_NODE + OTHERS;
	if (getrlimit(RLIMIT_NOFILE, &s->descriptors))
		return cli_fail(s->cli, EXIT_FAILED, "the limit of descriptors: %s", err_name(errno));
	struct rlimit more = {.rlim_cur = s->descriptors.rlim_max, .rlim_max = s->descriptors.rlim_max};
	if (s->descriptors.rlim_cur >= wanted || (more.rlim_cur >= wanted && !setrlimit(RLIMIT_NOFILE, &more)))
		return EXIT_OK;
	return cli_fail(s->cli, EXIT_FAILED,
			"%u nodes take %llu descriptors, of which this process may have %llu (ulimit -Hn)", s->nnodes,
			(unsigned long long)wanted, (unsigned long long)more.rlim_max);
}

int starter_main(const struct cli *cli, const char *job, uint32_t processes, uint64_t grace_ns, int signals)
{
	struct starter s = {.cli = cli,
			    .job = job,
			    .processes = processes,
			    .grace_ns = grace_ns,
			    .signals = signals,
			    .kill_at = UINT64_MAX,
			    .out.fd = STDOUT_FILENO,
			    .err.fd = STDERR_FILENO};
	int code = hosts_read(&s);
	proc_become_subreaper();
	if (!code)
		code = look_around(&s);
	if (!code)
		code = make_room(&s);
	if (!code)
		code = loop(&s);
	end(&s);
	return code;
}
