#include "job/restoring.h"

#include "base/cleanup.h"
#include "job/job.h"
#include "job/rank/barriers.h"
#include "replication/room.h"

static struct restored_rank rank_of(const struct job *job, uint32_t index)
{
	const struct rank *rank = &job->ranks[index];
	return (struct restored_rank){.id = rank->id, .mem = rank->mem, .waits = rank->restoring.seq};
}

static void answer(struct job *job, const struct wire_restored *m)
{
	AUTO_WBUF struct wbuf body = {0};
	if (wire_restored_encode(m, &body))
		body.failed = true;
	for (uint32_t r = 0; r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		client_send(rank->client, WIRE_RESTORED, rank->restoring.seq, &body, NULL, 0);
		rank->restoring = (struct waiting){0};
	}
}

static void refuse(struct job *job, int rc, const char *text)
{
	for (uint32_t r = 0; r < job->nlocal; r++)
		member_refuse(&job->ranks[r], &job->ranks[r].restoring, rc, "%s", text);
}

/* ---- from another node ------------------------------------------------------------------------------------------- */

/* The job, or the rank, may be gone when it has answered. */
static void fetched(void *arg, const struct replica_fetched *done)
{
	struct job *job = job_find(arg, done->job);
	const struct rank *rank = job ? job_rank(job, done->rank) : NULL;
	if (rank)
		restore_fetched(&job->restore, rank->index, done);
}

static void arrived(void *arg, const char *name, uint32_t id, uint64_t first, uint64_t count)
{
	struct job *job = job_find(arg, name);
	const struct rank *rank = job ? job_rank(job, id) : NULL;
	if (rank)
		restore_arrived(&job->restore, rank->index, first, count);
}

static int fetch(struct job *job, uint32_t index, uint32_t node)
{
	const struct restore *restore = &job->restore;
	const struct replica_fetch what = {.job = job->name,
					   .epoch = job->epoch,
					   .rank = job->ranks[index].id,
					   .id = restore->bring.id,
					   .from = node,
					   .mem = restore->claimed[index],
					   .slot = restore->slots[index],
					   .arrived = arrived,
					   .done = fetched,
					   .arg = job->jobs};
	return replica_fetch(job->peers->replica, &what);
}

/* ---- from a former world ------------------------------------------------------------------------------------------ */

static void surveyed(void *arg, const struct replica_surveyed *found)
{
	struct job *job = job_find(arg, found->job);
	if (job)
		recut_surveyed(&job->restore, found);
}

static int look_around(struct job *job)
{
	return replica_survey(job->peers->replica, job->name, job->epoch, surveyed, job->jobs);
}

static void part_fetched(void *arg, const struct replica_fetched *done)
{
	struct job *job = job_find(arg, done->job);
	if (job)
		recut_fetched(&job->restore, done);
}

static int fetch_part(struct job *job, const struct replica_found *found)
{
	const struct replica_fetch what = {.job = job->name,
					   .epoch = job->epoch,
					   .rank = found->rank,
					   .world = found->world,
					   .id = found->id,
					   .table = &found->table,
					   .from = found->node,
					   .done = part_fetched,
					   .arg = job->jobs};
	return replica_fetch(job->peers->replica, &what);
}

void job_init_restore(struct job *job)
{
	restore_init(&job->restore, &(struct restored_job){.job = job,
							   .name = job->name,
							   .policy = &job->policy,
							   .epoch = &job->epoch,
							   .world = &job->world,
							   .nlocal = &job->nlocal,
							   .runtime = job->runtime,
							   .storage = job->storage,
							   .peers = job->peers,
							   .saves = &job->saves,
							   .copies = &job->copies,
							   .health_marks = &job->health_marks,
							   .log = &job->recovery_log,
							   .former = &job->former,
							   .rank = rank_of,
							   .answer = answer,
							   .refuse = refuse,
							   .fetch = fetch,
							   .look_around = look_around,
							   .fetch_part = fetch_part});
}
