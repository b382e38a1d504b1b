/* Which rank a process is, where it or its launcher knows of another plan than this daemon. */
#include "job/resize_private.h"

#include "base/cleanup.h"
#include "job/job.h"

bool resize_tell(struct rank *rank, uint32_t seq, const struct registration *table)
{
	AUTO_WBUF struct wbuf body = {0};
	const struct job *job = rank->job;
	struct wire_moved m = {.rank = rank->id, .world = job->world, .local_world = job->nlocal};
	if (table && table->rank == m.rank && table->world == m.world)
		rank->moved = false;
	if (!rank->moved)
		return false;
	if (wire_moved_encode(&m, &body))
		body.failed = true;
	client_send(rank->client, WIRE_MOVED, seq, &body, NULL, 0);
	return true;
}

bool resize_let_go(const struct job *job, int pid)
{
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++)
		if (job->resize.gone[i] == pid)
			return true;
	return false;
}

void resize_started(struct job *job, int pid)
{
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++)
		if (job->resize.gone[i] == pid)
			job->resize.gone[i] = 0;
}

void resize_place(struct jobs *jobs, struct wire_hello *hello, int pid)
{
	struct job *job = hello->role == ROLE_RANK ? job_find(jobs, hello->job) : NULL;
	for (uint32_t r = 0; job && r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		if (rank->pid != pid || rank->hello_received || rank->id == RANK_MAX)
			continue;
		rank->moved = rank->moved || rank->id != hello->rank || job->world != hello->world;
		hello->rank = rank->id;
		hello->world = job->world;
		hello->local_world = job->nlocal; /* others may be here than when it was started */
		return;
	}
}

/* ---- the launcher's word --------------------------------------------------------------------------------------- */

bool resize_keeps_alive(const struct wire_offer *offer, uint32_t rank)
{
	for (uint32_t r = 0; r < offer->n; r++)
		if (offer->ranks[r] == rank)
			return true;
	return false;
}

bool resize_resumes(const struct job *job, const struct wire_offer *offer)
{
	return !job->resize.plan && offer->plan && offer->n <= job->nlocal;
}

bool resize_fits(const struct job *job, const struct wire_offer *offer)
{
	uint32_t places = 0;
	for (uint32_t r = 0; r < job->nlocal; r++)
		places += job->ranks[r].id == RANK_MAX;
	for (uint32_t r = 0; r < offer->n; r++)
		if (!job_rank(job, offer->ranks[r]) && !places--)
			return false;
	return true;
}

int resize_make_way(struct job *job, const struct wire_offer *offer, struct err *err)
{
	if (!resize_resumes(job, offer) || resize_fits(job, offer))
		return 0;
	for (uint32_t r = 0; r < offer->n; r++)
		if (offer->ranks[r] >= job->world)
			return err_set(err, -EINVAL, "rank %u is offered, where job '%s' has %u", offer->ranks[r],
				       job->name, job->world);
	if (job->entered) /* all its nodes took these for its ranks: it is not what was left of that plan */
		return err_set(err, -EBUSY, "job '%s' is at work here with other ranks, and not by plan %u", job->name,
			       offer->plan);
	for (uint32_t r = 0; r < job->nlocal; r++)
		if (job->ranks[r].mem && !resize_keeps_alive(offer, job->ranks[r].id))
			memory_retire(job->ranks[r].mem);
	restore_cancel(&job->restore);
	saves_abandon(&job->saves, RESIZE_GONE_ON);
	if (saves_idle_here(&job->saves) && restore_idle(&job->restore))
		return 0;
	return err_set(err, -EAGAIN, "job '%s': what processes have under way that are not its ranks ends first",
		       job->name);
}
