#include "job/saving.h"

#include "base/cleanup.h"
#include "job/job.h"

#include <stdio.h>

static struct saved_rank rank_of(const struct job *job, uint32_t index)
{
	const struct rank *rank = &job->ranks[index];
	return (struct saved_rank){.id = rank->id,
				   .mem = rank->mem,
				   .in_use = rank->mem && (rank->arena_sent || rank->mem->inspected),
				   .rejoined = rank->rejoined,
				   .finished = rank->state == RANK_LEFT};
}

static void tell_event(struct job *job, struct step_id id, int rc, const char *text)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_event event = {.id = id, .rc = rc};
	snprintf(event.text, sizeof(event.text), "%s", text);
	if (wire_event_encode(&event, &body))
		return;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].client)
			client_send(job->ranks[r].client, WIRE_EVENT, 0, &body, NULL, 0);
}

static void durable(struct job *job, struct step_id id)
{
	health_marks_durable(&job->health_marks, id);
	halt_durable(job);
}

void job_init_saves(struct job *job)
{
	saves_init(&job->saves, &(struct saved_job){.job = job,
						    .name = job->name,
						    .policy = &job->policy,
						    .epoch = &job->epoch,
						    .world = &job->world,
						    .nlocal = &job->nlocal,
						    .nslots = &job->nslots,
						    .spread = &job->spread,
						    .stop = &job->stop,
						    .runtime = job->runtime,
						    .storage = job->storage,
						    .copies = &job->copies,
						    .stats = &job->save_stats,
						    .rank = rank_of,
						    .event = tell_event,
						    .durable = durable});
}
