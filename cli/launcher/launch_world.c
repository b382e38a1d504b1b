/* A world that changes: what this launcher offers the job, and the plan that comes of it (ckptd/coordinator/assignment.h). */
#include "launcher/launch.h"

#include "base/cleanup.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static uint32_t processes(const struct launch *launch)
{
	return launch->options.processes - launch->retired;
}

void world_offer(struct launch *launch)
{
	const struct launch_options *o = &launch->options;
	struct wire_offer m = {.want = o->nodes * o->processes,
			       .least = o->least,
			       .processes = processes(launch),
			       .spread = o->nodes > 1,
			       .spare = o->spare,
			       .leaving = launch->leaving,
			       .drained = launch->drained,
			       .plan = launch->plan};
	if (!o->least)
		return;
	for (uint32_t r = 0; r < launch->nranks && launch->plan; r++)
		if (!launch->ranks[r].retired)
			m.ranks[m.n++] = launch->ranks[r].id;
	uplink_offer(&launch->link, &m);
}

/* On several nodes those that are left are counted by others. */
static bool may_retire(const struct launch *launch)
{
	const struct launch_options *o = &launch->options;
	uint32_t left = processes(launch) - 1;
	if (!o->least || launch->stop != STOP_NONE)
		return false;
	return o->nodes > 1 ? left > 0 : left >= o->least;
}

bool world_retire(struct launch *launch, struct launch_rank *rank)
{
	if (!may_retire(launch))
		return false;
	char text[80];
	launch->retired++;
	rank->retired = true;
	ranks_finish(rank);
	launch_warn(launch, "rank %u %s and is not started again: %s with %u ranks", rank->id,
		    proc_status_text(text, sizeof(text), rank->status),
		    launch->options.nodes > 1 ? "this node goes on" : "the job goes on", processes(launch));
	world_offer(launch);
	return true;
}

bool world_leave(struct launch *launch)
{
	if (!launch->options.least || launch->options.nodes == 1 || launch->link.state != UPLINK_UP)
		return false;
	launch->leaving = true;
	world_offer(launch);
	return true;
}

/* ---- the plan -------------------------------------------------------------------------------------------------- */

static void rename_rank(const struct launch *launch, struct launch_rank *rank, uint32_t id)
{
	rank->id = id;
	for (int i = 0; i < 2 && launch->options.prefix; i++) {
		struct stream *stream = i ? &rank->err : &rank->out;
		if (stream->fd >= 0)
			snprintf(stream->prefix, sizeof(stream->prefix), "[%u] ", id);
	}
}

/* A process that was started for a loss and has not joined since knows its place from its environment alone. With that it may wait for ranks
 * that nobody has any more, as PyTorch's process groups do before the job is joined. */
static bool knows_otherwise(const struct launch *launch, const struct launch_rank *rank, const struct wire_plan *m,
			    uint32_t id)
{
	bool joined = held_entered(&launch->held, rank->id) > launch->loss.epoch;
	return rank->stand == RANK_RUNNING && rank->starts > 1 && !joined &&
	       (rank->id != id || launch->world != m->world);
}

static void start_anew(struct launch *launch, struct launch_rank *from, struct launch_rank *to, uint64_t now)
{
	launch_warn(launch, "process %d has not joined yet as rank %u of %u: started again, as rank %u",
		    (int)from->proc.pid, from->id, launch->world, to->id);
	to->starts = from->starts;
	to->streak = from->streak;
	to->start_at = now;
	stream_close(&from->out);
	stream_close(&from->err);
	dismissed_add(&launch->dismissed, &from->proc, 0);
}

/* A process that has no rank any more ends. If its number is that of another one here from now on, at once: nobody is to take them for each other. */
static void let_go(struct launch *launch, struct launch_rank *rank, const struct wire_plan *m, uint64_t now)
{
	bool taken = false;
	for (uint32_t i = 0; i < m->n; i++)
		taken = taken || m->ranks[i] == rank->id;
	dismissed_add(&launch->dismissed, &rank->proc, taken ? 0 : now + launch->options.grace_ns);
	stream_close(&rank->out);
	stream_close(&rank->err);
}

static void take_places(struct launch *launch, const struct wire_plan *m, struct launch_rank *to, uint64_t now)
{
	bool kept[WIRE_LOCAL_MAX] = {false};
	if (m->n)
		dismissed_kill(&launch->dismissed); /* before others begin here, perhaps under the same numbers */
	for (uint32_t i = 0; i < m->n; i++) {
		struct launch_rank *from = m->was[i] == WIRE_NEW_PROCESS ? NULL : ranks_find(launch, m->was[i]);
		ranks_init(&to[i], m->ranks[i]);
		if (!from) {
			to[i].start_at = now;
			continue;
		}
		kept[from - launch->ranks] = true;
		if (knows_otherwise(launch, from, m, m->ranks[i]))
			start_anew(launch, from, &to[i], now);
		else
			to[i] = *from;
	}
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (!kept[r])
			let_go(launch, &launch->ranks[r], m, now);
}

/* Every process is who it was. */
static bool changes_nothing(const struct launch *launch, const struct wire_plan *m)
{
	if (m->world != launch->world || m->n != launch->nranks)
		return false;
	for (uint32_t i = 0; i < m->n; i++)
		if (m->was[i] != m->ranks[i] || !ranks_find(launch, m->ranks[i]))
			return false;
	return true;
}

/* 0: the job has ended, or goes on without this node. */
static void have_none(struct launch *launch, uint32_t world)
{
	launch->waits = world && !launch->leaving;
	if (!world)
		launch_say(launch, "the job has ended");
	else if (launch->waits)
		launch_say(launch, "the job goes on with %u ranks, none of them here: this node waits", world);
	else
		launch_say(launch, "the job goes on with %u ranks on other nodes", world);
}

static void have_some(struct launch *launch, const struct wire_plan *m, uint64_t now)
{
	launch->waits = false;
	if (launch->started_ns)
		launch_say(launch, "the job goes on with %u ranks, %u of them here", m->world, m->n);
	else
		launch_say(launch, "job %s: %u ranks, %u of them here, daemon at %s", launch->options.job, m->world,
			   m->n, launch->keeper.socket);
	if (!launch->started_ns)
		launch->started_ns = launch->epoch_ns = now;
}

static void change(struct launch *launch, const struct wire_plan *m, struct launch_rank *ranks, uint64_t now)
{
	take_places(launch, m, ranks, now);
	for (uint32_t i = 0; i < m->n; i++)
		rename_rank(launch, &ranks[i], m->ranks[i]);
	free(launch->ranks);
	launch->ranks = ranks;
	launch->nranks = m->n;
	launch->world = launch->link.hello.world = m->n ? m->world : 0;
	launch->link.hello.local_world = m->n;
	/* That its processes have come back from the last loss was to be seen in these. */
	if (held_newest_entered(&launch->held) > launch->loss.epoch)
		launch->loss = (struct loss){0};
	launch->joined |= held_any_joined(&launch->held);
	held_free(&launch->held); /* of the world that was */
	held_init(&launch->held);
	if (m->n)
		have_some(launch, m, now);
	else
		have_none(launch, m->world);
}

void world_plan(struct launch *launch, const struct wire_plan *m, uint64_t now)
{
	bool over = !m->number && launch->nranks; /* ranks that are at work end by themselves */
	launch->over = over;
	if (over || (m->number && m->number < launch->plan))
		return;
	launch->plan = launch->link.hello.plan = m->number;
	if (m->number && changes_nothing(launch, m)) {
		world_offer(launch);
		return;
	}
	struct launch_rank *ranks = calloc(WIRE_LOCAL_MAX, sizeof(*ranks));
	if (!ranks) {
		launch_give_up(launch, EXIT_FAILED, "out of memory");
		return;
	}
	change(launch, m, ranks, now);
	if (m->number)
		world_offer(launch);
}
