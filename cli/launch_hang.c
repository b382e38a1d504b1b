/* A rank that hangs makes all others wait in their next collective, so that soon none has a heartbeat. The one to blame is who is
 * stopped, else who is in no collective, else who is in an earlier one, else who is at an earlier step or fell silent first. */
#include "launch.h"

#include "base/clock.h"

#include <inttypes.h>
#include <signal.h>

/* When it was last known to do something; false: its process has not come to work yet. */
static bool last_sign(const struct launch *launch, const struct launch_rank *rank, struct held_view *view)
{
	return rank->stand == RANK_RUNNING && held_look(&launch->held, rank->id, view) &&
	       view->beat_ns >= rank->proc.started_ns;
}

/* While ranks come and go nobody beats: counted from the last change on. */
static uint64_t quiet_since(const struct launch *launch, const struct held_view *view)
{
	uint64_t since = max_u64(view->beat_ns, launch->epoch_ns);
	for (uint32_t r = 0; r < launch->nranks; r++)
		since = max_u64(since, launch->ranks[r].proc.started_ns);
	return since;
}

uint64_t hang_next(const struct launch *launch)
{
	uint64_t next = UINT64_MAX;
	struct held_view view;
	for (uint32_t r = 0; r < launch->nranks && launch->options.hang_ns; r++)
		if (last_sign(launch, &launch->ranks[r], &view))
			next = min_u64(next, quiet_since(launch, &view) + launch->options.hang_ns);
	return next;
}

struct suspect {
	const struct launch_rank *rank;
	struct held_view view;
	bool stopped;
};

static bool more_suspect(const struct suspect *a, const struct suspect *b)
{
	if (!b->rank || a->stopped != b->stopped)
		return !b->rank || a->stopped;
	if (a->view.in_collective != b->view.in_collective)
		return !a->view.in_collective;
	if (a->view.in_collective && a->view.collective != b->view.collective)
		return a->view.collective < b->view.collective;
	if (a->view.step != b->view.step)
		return a->view.step < b->view.step;
	return a->view.beat_ns < b->view.beat_ns;
}

/* Who beat lately is not to blame, though the first to be overdue may be one that waits for another. */
static struct suspect find(const struct launch *launch, uint64_t now)
{
	struct suspect worst = {.rank = NULL};
	for (uint32_t r = 0; r < launch->nranks; r++) {
		struct suspect s = {.rank = &launch->ranks[r]};
		if (!last_sign(launch, s.rank, &s.view) || now - s.view.beat_ns < launch->options.hang_ns / 2)
			continue;
		s.stopped = proc_stopped(&s.rank->proc);
		if (more_suspect(&s, &worst))
			worst = s;
	}
	return worst;
}

void hang_tick(struct launch *launch, uint64_t now)
{
	if (now < hang_next(launch))
		return;
	struct suspect s = find(launch, now);
	if (!s.rank)
		return;
	launch_warn(launch, "rank %u hangs: no heartbeat for %.1f s, last at step %" PRIu64 "%s: process %d is killed",
		    s.rank->id, (double)(now - s.view.beat_ns) / 1e9, s.view.step, s.stopped ? ", stopped" : "",
		    (int)s.rank->proc.pid);
	proc_signal(&s.rank->proc, SIGKILL);
	launch->epoch_ns = now; /* the others get their time, too */
}
