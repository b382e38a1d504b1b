/* A world that changes: what this launcher offers the job, and the plan that comes of it (ckptd/crew.h). */
#include "launch.h"

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
	struct wire_offer m = {.want = o->processes, .least = o->least, .processes = processes(launch)};
	if (!o->least)
		return;
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (launch->ranks[r].retired)
			m.lost[m.nlost++] = launch->ranks[r].id;
	uplink_offer(&launch->link, &m);
}

bool world_retire(struct launch *launch, struct launch_rank *rank)
{
	const struct launch_options *o = &launch->options;
	if (!o->least || launch->stop != STOP_NONE || processes(launch) - 1 < o->least)
		return false;
	char text[80];
	launch->retired++;
	rank->retired = true;
	ranks_finish(rank);
	launch_warn(launch, "rank %u %s and is not started again: the job goes on with %u ranks", rank->id,
		    proc_status_text(text, sizeof(text), rank->status), processes(launch));
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

/* A process that has no rank any more ends, with what it has still to say. */
static void let_go(struct launch_rank *rank)
{
	proc_signal(&rank->proc, SIGTERM);
	cleanup_close(&rank->proc.pidfd);
	stream_close(&rank->out);
	stream_close(&rank->err);
}

static void take_places(struct launch *launch, const struct wire_plan *m, struct launch_rank *to, uint64_t now)
{
	bool kept[WIRE_LOCAL_MAX] = {false};
	for (uint32_t i = 0; i < m->n; i++) {
		struct launch_rank *from = m->was[i] == WIRE_NEW_PROCESS ? NULL : ranks_find(launch, m->was[i]);
		ranks_init(&to[i], m->ranks[i]);
		if (!from) {
			to[i].start_at = now;
			continue;
		}
		to[i] = *from;
		kept[from - launch->ranks] = true;
	}
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (!kept[r])
			let_go(&launch->ranks[r]);
}

void world_plan(struct launch *launch, const struct wire_plan *m, uint64_t now)
{
	struct launch_rank *ranks = calloc(WIRE_LOCAL_MAX, sizeof(*ranks));
	if (!ranks) {
		launch_give_up(launch, EXIT_FAILED, "out of memory");
		return;
	}
	take_places(launch, m, ranks, now);
	for (uint32_t i = 0; i < m->n; i++)
		rename_rank(launch, &ranks[i], m->ranks[i]);
	free(launch->ranks);
	launch->ranks = ranks;
	launch->nranks = m->n;
	launch->world = launch->link.hello.world = m->world;
	launch->link.hello.local_world = m->n;
	held_free(&launch->held); /* of the world that was */
	launch_say(launch, "the job goes on with %u ranks, %u of them here", m->world, m->n);
}
