/* Which rank a process is, where it or its launcher knows of another plan than this daemon. */
#include "base/cleanup.h"
#include "daemon.h"
#include "job.h"

bool reform_tell(struct rank *rank, uint32_t seq, const struct registration *table)
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

bool reform_let_go(const struct job *job, int pid)
{
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++)
		if (job->reform.gone[i] == pid)
			return true;
	return false;
}

void reform_started(struct job *job, int pid)
{
	for (uint32_t i = 0; i < WIRE_LOCAL_MAX; i++)
		if (job->reform.gone[i] == pid)
			job->reform.gone[i] = 0;
}

void reform_place(struct daemon *daemon, struct wire_hello *hello, int pid)
{
	struct job *job = hello->role == ROLE_RANK ? job_find(daemon, hello->job) : NULL;
	for (uint32_t r = 0; job && r < job->nlocal; r++) {
		struct rank *rank = &job->ranks[r];
		if (rank->pid != pid || rank->greeted || rank->id == RANK_MAX)
			continue;
		if (rank->id == hello->rank && job->world == hello->world)
			return;
		rank->moved = true;
		hello->rank = rank->id;
		hello->world = job->world;
		hello->local_world = job->nlocal;
		return;
	}
}
