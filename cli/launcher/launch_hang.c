/* Kills the rank for which the others wait (format/arena/culprit.h). */
#include "launcher/launch.h"

#include "base/clock.h"
#include "format/arena/culprit.h"

#include <signal.h>

/* When it was last known to do something; false: its process has not come to work yet. */
static bool last_sign(const struct launch *launch, const struct launch_rank *rank, struct flight_view *view)
{
	return rank->stand == RANK_RUNNING && held_look(&launch->held, rank->id, view) &&
	       view->beat_ns >= rank->proc.started_ns;
}

/* While ranks come and go nobody beats: counted from the last change on. */
static uint64_t quiet_since(const struct launch *launch, const struct flight_view *view)
{
	uint64_t since = max_u64(view->beat_ns, launch->epoch_ns);
	for (uint32_t r = 0; r < launch->nranks; r++)
		since = max_u64(since, launch->ranks[r].proc.started_ns);
	return since;
}

/* The first heartbeat of a process wakes nobody: until it has come it is looked for. */
uint64_t hang_next(const struct launch *launch)
{
	uint64_t next = UINT64_MAX, hang_ns = launch->options.hang_ns;
	struct flight_view view;
	for (uint32_t r = 0; r < launch->nranks && hang_ns; r++) {
		const struct launch_rank *rank = &launch->ranks[r];
		if (last_sign(launch, rank, &view))
			next = min_u64(next, quiet_since(launch, &view) + hang_ns);
		else if (rank->stand == RANK_RUNNING)
			next = min_u64(next, clock_now() + hang_ns / 2);
	}
	return next;
}

/* Those that have come to work; how many. */
static uint32_t suspects(const struct launch *launch, struct suspect all[WIRE_LOCAL_MAX])
{
	uint32_t n = 0;
	for (uint32_t r = 0; r < launch->nranks; r++) {
		const struct launch_rank *rank = &launch->ranks[r];
		struct suspect *s = &all[n];
		*s = (struct suspect){.rank = rank->id};
		if (last_sign(launch, rank, &s->is)) {
			s->stopped = proc_stopped(&rank->proc);
			n++;
		}
	}
	return n;
}

void hang_tick(struct launch *launch, uint64_t now)
{
	struct suspect all[WIRE_LOCAL_MAX];
	char text[CULPRIT_TEXT_MAX];
	if (now < hang_next(launch))
		return;
	uint32_t n = suspects(launch, all);
	const struct suspect *s = culprit_find(all, n, now - launch->options.hang_ns / 2);
	struct launch_rank *rank = s ? ranks_find(launch, s->rank) : NULL;
	if (!rank)
		return;
	launch_warn(launch, "rank %u hangs: no heartbeat for %.1f s, %s: process %d is killed", s->rank,
		    (double)(now - s->is.beat_ns) / 1e9, culprit_text(all, n, s, text), (int)rank->proc.pid);
	proc_signal(&rank->proc, SIGKILL);
	launch->epoch_ns = now; /* the others get their time, too */
}
