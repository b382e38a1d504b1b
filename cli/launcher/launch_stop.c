#include "launcher/launch.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Between SIGTERM and SIGKILL, and after SIGKILL until a process counts as one that cannot be killed. */
#define TERM_NS (10 * CLOCK_NS_PER_S)
#define KILL_NS (30 * CLOCK_NS_PER_S)
/* Who attends says something four times a minute: a cut of the network ends no connection. */
#define SILENCE_NS (300 * CLOCK_NS_PER_S)

/* From here on no process is started any more. */
static void finish_waiting(struct launch *launch)
{
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (launch->ranks[r].stand == RANK_WAITING)
			launch->ranks[r].stand = RANK_FINISHED;
}

static void go(struct launch *launch, enum stop_stand stand, uint64_t next)
{
	launch->stop = stand;
	launch->stop_next_ns = next;
	if (stand >= STOP_TERM)
		finish_waiting(launch);
	if (stand == STOP_ASKED)
		uplink_stop(&launch->link);
	if (stand == STOP_TERM) {
		ranks_signal(launch, SIGCONT); /* those that are stopped */
		ranks_signal(launch, SIGTERM);
	}
	if (stand == STOP_KILL)
		ranks_signal(launch, SIGKILL);
}

void stop_begin(struct launch *launch, enum stop_stand stand, uint64_t now)
{
	uint64_t grace = launch->options.grace_ns;
	if (launch->stop >= stand)
		return;
	if (stand == STOP_ASKED)
		go(launch, stand, now + grace);
	else if (stand == STOP_TERM)
		go(launch, stand, now + (launch->failed ? min_u64(grace, TERM_NS) : grace));
	else
		go(launch, stand, now + KILL_NS);
}

/* In this world or in one before it. */
static bool has_joined(const struct launch *launch)
{
	return launch->joined || held_any_joined(&launch->held);
}

/* Of a job that can go on without this node. */
static bool leave(struct launch *launch, int sig, uint64_t now)
{
	if (!launch->nranks || launch->leaving || !has_joined(launch) || !world_leave(launch))
		return false;
	launch_warn(launch, "SIG%s: the ranks go to other nodes, or the job ends, within %.0f s (SIGINT: at once)",
		    sigabbrev_np(sig), (double)launch->options.grace_ns / 1e9);
	launch->stop = STOP_ASKED;
	launch->stop_next_ns = now + launch->options.grace_ns;
	return true;
}

/* whole: the job is to end, on all nodes. */
static void stop_wanted(struct launch *launch, int sig, bool whole, uint64_t now)
{
	if (launch->stop == STOP_NONE) {
		launch->stop_signal = sig;
		if (stay_wanted(launch)) {
			launch_warn(launch, "SIG%s: those of the other nodes are not waited for", sigabbrev_np(sig));
			launch->stop = STOP_TERM;
			return;
		}
		if (!whole && leave(launch, sig, now))
			return;
		/* Who waits to join, for ranks that may never come, does not see the wish: they get the signal. */
		bool heard = has_joined(launch);
		launch_warn(launch,
			    heard ? "SIG%s: the ranks take a last checkpoint and end, within %.0f s (SIGINT: at once)"
				  : "SIG%s: the ranks get SIGTERM, and %.0f s to end (SIGINT: at once)",
			    sigabbrev_np(sig), (double)launch->options.grace_ns / 1e9);
		stop_begin(launch, heard ? STOP_ASKED : STOP_TERM, now);
	} else if (sig == SIGINT) {
		launch->stop_signal = SIGINT;
		launch_warn(launch, "SIGINT: the ranks are killed");
		stop_begin(launch, STOP_KILL, now);
	}
}

void stop_signalled(struct launch *launch, int sig, uint64_t now)
{
	stop_wanted(launch, sig, false, now);
}

/* Nobody attends any more: nothing goes on unattended. */
static void be_left(struct launch *launch, uint64_t now)
{
	launch->options.attended = false;
	if (launch->stop == STOP_NONE)
		launch_warn(launch, "who started this launcher is gone");
	stop_signalled(launch, SIGTERM, now);
}

void stop_hear(struct launch *launch, uint64_t now)
{
	char wishes[16];
	ssize_t n = read(STDIN_FILENO, wishes, sizeof(wishes));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	for (ssize_t i = 0; i < n; i++)
		if (wishes[i] == 'T' || wishes[i] == 'I')
			stop_wanted(launch, wishes[i] == 'I' ? SIGINT : SIGTERM, true, now);
	launch->heard_ns = now;
	if (n <= 0)
		be_left(launch, now);
}

static void leave_unkillable(struct launch *launch)
{
	for (uint32_t r = 0; r < launch->nranks; r++) {
		struct launch_rank *rank = &launch->ranks[r];
		if (rank->stand == RANK_RUNNING)
			launch_warn(launch, "rank %u: process %d does not die of SIGKILL: it is left behind", rank->id,
				    (int)rank->proc.pid);
		if (rank->stand != RANK_FINISHED)
			rank->status = SIGKILL;
		rank->stand = RANK_FINISHED;
	}
	launch->stop_next_ns = UINT64_MAX;
}

void stop_tick(struct launch *launch, uint64_t now)
{
	if (launch->options.attended && now - launch->heard_ns > SILENCE_NS)
		be_left(launch, now);
	if (launch->stop == STOP_NONE || now < launch->stop_next_ns)
		return;
	if (launch->stop == STOP_ASKED) {
		launch_warn(launch, "the ranks have not ended within %.0f s: SIGTERM",
			    (double)launch->options.grace_ns / 1e9);
		go(launch, STOP_TERM, now + TERM_NS);
	} else if (launch->stop == STOP_TERM) {
		launch_warn(launch, "the ranks have not ended after SIGTERM: SIGKILL");
		go(launch, STOP_KILL, now + KILL_NS);
	} else {
		leave_unkillable(launch);
	}
}
