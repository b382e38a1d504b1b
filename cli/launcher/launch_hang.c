/* A rank that hangs makes all others wait in their next collective, so that soon none has a heartbeat. The one to blame is who is
 * stopped, else who is in no collective, else who is in an earlier one, else who is in another operation or size than most, else who is
 * at an earlier step or fell silent first. What each was in is its flight record. */
#include "launcher/launch.h"

#include "base/clock.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

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

struct suspect {
	const struct launch_rank *rank;
	struct flight_view view;
	bool stopped;
	uint32_t alike; /* ranks that are in the same collective, itself included */
};

static bool alike(const struct flight_view *a, const struct flight_view *b)
{
	return a->in_collective && b->in_collective && a->collective == b->collective && a->bytes == b->bytes &&
	       !strcmp(a->op, b->op);
}

static uint32_t count_alike(const struct launch *launch, const struct flight_view *view)
{
	struct flight_view other;
	uint32_t n = 0;
	for (uint32_t r = 0; r < launch->nranks; r++)
		n += last_sign(launch, &launch->ranks[r], &other) && alike(view, &other);
	return n;
}

static bool more_suspect(const struct suspect *a, const struct suspect *b)
{
	if (!b->rank || a->stopped != b->stopped)
		return !b->rank || a->stopped;
	if (a->view.in_collective != b->view.in_collective)
		return !a->view.in_collective;
	if (a->view.in_collective && a->view.collective != b->view.collective)
		return a->view.collective < b->view.collective;
	if (a->view.in_collective && a->alike != b->alike)
		return a->alike < b->alike;
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
		s.alike = count_alike(launch, &s.view);
		if (more_suspect(&s, &worst))
			worst = s;
	}
	return worst;
}

static const char *where(char text[96], const struct flight_view *view)
{
	if (view->in_collective)
		snprintf(text, 96, "in %s #%" PRIu64 " of %" PRIu64 " bytes", view->op, view->collective, view->bytes);
	else
		snprintf(text, 96, "in no collective");
	return text;
}

/* What most of the others are in; "" when they are in none either. */
static const char *where_others(const struct launch *launch, const struct suspect *s, char text[160])
{
	struct suspect most = {.rank = NULL};
	char at[96];
	text[0] = '\0';
	for (uint32_t r = 0; r < launch->nranks; r++) {
		struct suspect other = {.rank = &launch->ranks[r]};
		if (other.rank == s->rank || !last_sign(launch, other.rank, &other.view))
			continue;
		other.alike = count_alike(launch, &other.view);
		if (other.alike > most.alike)
			most = other;
	}
	if (most.rank && !alike(&most.view, &s->view))
		snprintf(text, 160, "; rank %u%s %s", most.rank->id, most.alike > 1 ? " and others are" : " is",
			 where(at, &most.view));
	return text;
}

void hang_tick(struct launch *launch, uint64_t now)
{
	char own[96], others[160];
	if (now < hang_next(launch))
		return;
	struct suspect s = find(launch, now);
	if (!s.rank)
		return;
	launch_warn(launch,
		    "rank %u hangs: no heartbeat for %.1f s, last at step %" PRIu64 "%s, %s%s: process %d is killed",
		    s.rank->id, (double)(now - s.view.beat_ns) / 1e9, s.view.step, s.stopped ? ", stopped" : "",
		    where(own, &s.view), where_others(launch, &s, others), (int)s.rank->proc.pid);
	proc_signal(&s.rank->proc, SIGKILL);
	launch->epoch_ns = now; /* the others get their time, too */
}
