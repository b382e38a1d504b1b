#include "launcher/launch.h"

#include "base/clock.h"

#include <inttypes.h>
#include <signal.h>

#define WATCH_NS CLOCK_NS_PER_MS          /* how often steps are looked at */
#define OVERDUE_NS (10 * CLOCK_NS_PER_MS) /* a time has come, but the process is not there */

/* The step of a rank that is at work now; what an earlier process has left in the arena does not count. */
static bool step_of(const struct launch *launch, uint32_t id, uint64_t *step)
{
	const struct launch_rank *rank = ranks_find(launch, id);
	struct flight_view view;
	if (!rank || rank->stand != RANK_RUNNING || !held_look(&launch->held, id, &view) ||
	    view.beat_ns < rank->proc.started_ns)
		return false;
	*step = view.step;
	return true;
}

static bool reached(const struct launch *launch, const struct fault *fault)
{
	uint64_t step;
	if (fault->kind != FAULT_KILL_DAEMON)
		return step_of(launch, fault->rank, &step) && step >= fault->step;
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (step_of(launch, launch->ranks[r].id, &step) && step >= fault->step)
			return true;
	return false;
}

/* NULL: there is no such rank any more. */
static const struct proc *target(const struct launch *launch, const struct fault *fault)
{
	const struct launch_rank *rank = ranks_find(launch, fault->rank);
	if (fault->kind == FAULT_KILL_DAEMON)
		return &launch->keeper.proc;
	return rank ? &rank->proc : NULL;
}

static bool due(const struct launch *launch, const struct fault *fault, uint64_t now)
{
	const struct proc *proc = target(launch, fault);
	if (fault->fired_ns || !launch->started_ns || !proc || !proc->pid)
		return false;
	return fault->trigger == TRIGGER_STEP ? reached(launch, fault) : now >= launch->started_ns + fault->at_ns;
}

/* What the rank plays itself: it was handed over when the process was started, and its time has come. */
static void note_played(struct launch *launch, struct fault *fault)
{
	const struct proc *proc = target(launch, fault);
	fault->fired_ns = clock_now();
	launch_say(launch, "injected: %s (rank %u, process %d, plays it)", fault->text, fault->rank, (int)proc->pid);
}

static void fire(struct launch *launch, struct fault *fault)
{
	const struct proc *proc = target(launch, fault);
	pid_t pid = proc->pid;
	uint64_t step = 0;
	fault->fired_ns = clock_now();
	proc_signal(proc, fault_of(fault->kind)->signal);
	if (fault->for_ns)
		fault->continue_ns = fault->fired_ns + fault->for_ns;
	if (fault->kind == FAULT_KILL_DAEMON)
		launch_say(launch, "injected: %s (process %d)", fault->text, (int)pid);
	else if (step_of(launch, fault->rank, &step))
		launch_say(launch, "injected: %s (rank %u, process %d, at step %" PRIu64 ")", fault->text, fault->rank,
			   (int)pid, step);
	else
		launch_say(launch, "injected: %s (rank %u, process %d)", fault->text, fault->rank, (int)pid);
}

void faults_tick(struct launch *launch, uint64_t now)
{
	for (size_t i = 0; i < launch->nfaults; i++) {
		struct fault *fault = &launch->faults[i];
		if (launch->stop == STOP_NONE && due(launch, fault, now)) {
			if (fault_played(fault->kind))
				note_played(launch, fault);
			else
				fire(launch, fault);
		}
		if (fault->continue_ns && now >= fault->continue_ns) {
			if (target(launch, fault))
				proc_signal(target(launch, fault), SIGCONT);
			fault->continue_ns = 0;
		}
	}
}

void faults_note(struct launch *launch, uint32_t rank, uint64_t now)
{
	for (size_t i = 0; i < launch->nfaults; i++) {
		struct fault *fault = &launch->faults[i];
		if (fault_played(fault->kind) && fault->rank == rank && due(launch, fault, now))
			note_played(launch, fault);
	}
}

static uint64_t next_of(const struct launch *launch, const struct fault *fault, uint64_t now)
{
	if (fault->continue_ns)
		return fault->continue_ns;
	if (fault->fired_ns || !launch->started_ns || launch->stop != STOP_NONE)
		return UINT64_MAX;
	if (fault->trigger == TRIGGER_STEP)
		return launch->held.count ? now + WATCH_NS : UINT64_MAX;
	return max_u64(launch->started_ns + fault->at_ns,
		       now + (now >= launch->started_ns + fault->at_ns) * OVERDUE_NS);
}

uint64_t faults_next(const struct launch *launch, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	for (size_t i = 0; i < launch->nfaults; i++)
		next = min_u64(next, next_of(launch, &launch->faults[i], now));
	return next;
}

size_t faults_fired(const struct launch *launch)
{
	size_t n = 0;
	for (size_t i = 0; i < launch->nfaults; i++)
		n += launch->faults[i].fired_ns != 0;
	return n;
}
