/* What training says of the checkpoints of a job: who may say it, and where its ranks see it. */
#include "base/cleanup.h"
#include "job/job.h"

static void show(void *arg, unsigned place, const struct kept_mark *mark)
{
	const struct job *job = arg;
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem)
			mark_keep(&job->ranks[r].mem->head->health_marks[place], mark);
}

void job_init_marks(struct job *job)
{
	health_marks_init(
		&job->health_marks,
		&(struct marked_job){
			.name = job->name, .runtime = job->runtime, .saves = &job->saves, .show = show, .arg = job});
}

void job_mark(struct rank *rank, uint32_t seq, const struct wire_mark *m)
{
	AUTO_WBUF struct wbuf body = {0};
	struct job *job = rank->job;
	if (rank->state != RANK_JOINED || m->epoch != job->epoch || m->id.epoch > job->epoch) {
		client_error(rank->client, seq, -ESTALE, "the job is in epoch %u: join first", job->epoch);
		return;
	}
	health_marks_take(&job->health_marks, m);
	client_send(rank->client, WIRE_MARK, seq, &body, NULL, 0);
}
