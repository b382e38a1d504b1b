/* Kills the rank for which the others wait: the one that the daemon names (ckptd/job/monitor/standstill.h), else who of those here is to blame
 * (format/arena/culprit.h). */
#include "launcher/launch.h"

#include "base/clock.h"
#include "format/arena/culprit.h"

#include <signal.h>

/* The others wait for another one in vain, as long as its launcher does not kill it, or the daemon here does not answer. */
#define ELSEWHERE_TIMES 8

/* The daemon knows of the ranks on other nodes, too. */
static bool is_named(const struct launch *launch, uint32_t rank)
{
	uint32_t named;
	return held_named(&launch->held, &named) && named == rank;
}

/* When it was last known to do something; false: its process has not come to work yet, as far as is known. */
static bool last_sign(const struct launch *launch, const struct launch_rank *rank, struct flight_view *view)
{
	if (rank->stand != RANK_RUNNING || !held_look(&launch->held, rank->id, view))
		return false;
	if (view->beat_ns >= rank->proc.started_ns)
		return true;
	view->beat_ns = rank->proc.started_ns;
	return is_named(launch, rank->id);
}

/* While ranks come and go nobody beats, nor while a node of the job is not heard: counted from the last change on. */
static uint64_t quiet_since(const struct launch *launch, const struct flight_view *view)
{
	uint64_t since = max_u64(view->beat_ns, launch->epoch_ns);
	for (uint32_t r = 0; r < launch->nranks; r++)
		since = max_u64(since, max_u64(launch->ranks[r].proc.started_ns,
					       held_apart(&launch->held, launch->ranks[r].id)));
	return since;
}

/* When a rank of this node has been quiet for so long. The first heartbeat of a process wakes nobody: until it has come it is looked for. */
static uint64_t quiet_for(const struct launch *launch, uint64_t ns)
{
	uint64_t next = UINT64_MAX;
	struct flight_view view;
	for (uint32_t r = 0; r < launch->nranks; r++) {
		const struct launch_rank *rank = &launch->ranks[r];
		if (last_sign(launch, rank, &view))
			next = min_u64(next, quiet_since(launch, &view) + ns);
		else if (rank->stand == RANK_RUNNING)
			next = min_u64(next, clock_now() + ns / 2);
	}
	return next;
}

/* The same, but one that was spared has its time from then on. */
static uint64_t due_after(const struct launch *launch, uint64_t ns)
{
	return max_u64(quiet_for(launch, ns), launch->hang_held_ns + ns);
}

/* On several nodes the ranks are looked at once before: when another launcher kills the one that hangs, the others have left their collective,
 * and any of them looks like it. */
static uint64_t early_ns(const struct launch *launch)
{
	return launch->options.hang_ns - launch->options.hang_ns / 8;
}

uint64_t hang_next(const struct launch *launch)
{
	uint64_t hang_ns = launch->options.hang_ns, early = UINT64_MAX;
	struct flight_view view;
	if (!hang_ns)
		return UINT64_MAX;
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (is_named(launch, launch->ranks[r].id) && last_sign(launch, &launch->ranks[r], &view))
			return quiet_since(launch, &view) + hang_ns;
	if (launch->options.nodes > 1)
		early = due_after(launch, early_ns(launch));
	return early > launch->hang_looked_ns ? min_u64(early, due_after(launch, hang_ns)) : due_after(launch, hang_ns);
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

/* It is stopped, or in no collective although it tells of them: it is not one that waits for a rank of another node.
 * Ranks of one node that wait for the same one may be in different collectives: some have come further before. */
static bool is_known(const struct suspect *s)
{
	return s->stopped || (!s->is.in_collective && s->is.since_ns);
}

static bool is_within_patience(const struct launch *launch, uint64_t now)
{
	return now < quiet_for(launch, ELSEWHERE_TIMES * launch->options.hang_ns);
}

/* A daemon that is stopped neither names anybody nor tells its ranks of a new epoch: they stay in the collective of the last one. Nor could
 * a process begin that takes the place of one that is killed. */
static bool is_daemon_silent(const struct launch *launch)
{
	return launch->link.heard_ns < launch->hang_asked_ns;
}

/* Of several nodes one has the rank that hangs, and its launcher kills it now. The others wait until the daemon has
 * judged by the ranks of all nodes, which may take longer than the time here: it measures by the job's steps. If it
 * names nobody, they wait as long again before they kill one of theirs. On a busy machine the look before may have been
 * missed: then it is made up for in half of that time, so that the rank that hangs is killed first. */
static bool is_spared(struct launch *launch, const struct suspect *s, uint64_t now)
{
	bool known = is_known(s);
	if (now < due_after(launch, launch->options.hang_ns)) {
		launch->hang_looked_ns = now;
		launch->hang_known_ns = known ? s->is.beat_ns : 0;
		launch->hang_asked_ns = now;
		daemon_ask(launch);
		return true;
	}
	if ((is_daemon_silent(launch) || (!known && !held_judged(&launch->held))) && is_within_patience(launch, now)) {
		launch->hang_held_ns = now;
		return true;
	}
	if ((known && s->is.beat_ns == launch->hang_known_ns) || s->is.beat_ns == launch->hang_spared_ns)
		return false;
	launch->hang_spared_ns = s->is.beat_ns;
	launch->hang_held_ns = known ? now - launch->options.hang_ns / 2 : now;
	return true;
}

/* NULL: nobody, or nobody yet. */
static const struct suspect *who_hangs(struct launch *launch, const struct suspect *all, uint32_t n, uint64_t now)
{
	uint32_t named;
	if (held_named(&launch->held, &named)) {
		for (uint32_t i = 0; i < n; i++)
			if (all[i].rank == named)
				return &all[i];
		if (is_within_patience(launch, now)) {
			launch->hang_held_ns = now;
			return NULL;
		}
	}
	const struct suspect *s = culprit_find(all, n, now - launch->options.hang_ns / 2);
	return s && launch->options.nodes > 1 && is_spared(launch, s, now) ? NULL : s;
}

void hang_tick(struct launch *launch, uint64_t now)
{
	struct suspect all[WIRE_LOCAL_MAX];
	char text[CULPRIT_TEXT_MAX];
	if (now < hang_next(launch))
		return;
	uint32_t n = suspects(launch, all);
	culprit_count(all, n);
	const struct suspect *s = who_hangs(launch, all, n, now);
	struct launch_rank *rank = s ? ranks_find(launch, s->rank) : NULL;
	if (!rank)
		return;
	launch_warn(launch, "rank %u hangs: no heartbeat for %.1f s, %s: process %d is killed", s->rank,
		    (double)(now - s->is.beat_ns) / 1e9, culprit_text(all, n, s, text), (int)rank->proc.pid);
	proc_signal(&rank->proc, SIGKILL);
	launch->epoch_ns = now; /* the others get their time, too */
}
