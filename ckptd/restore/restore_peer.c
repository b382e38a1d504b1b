#include "restore/restore_private.h"

#include "cluster/roster.h"
#include "daemon.h"
#include "replication/replication.h"

#include <stdio.h>

enum { AT_ONCE = 8 }; /* parts that are fetched at the same time */

/* The next node that may have the rank's part, after those that were tried; -1: none is left. */
static int next_holder(const struct recover *recover, uint32_t rank, uint32_t tried)
{
	const struct peer_bring *bring = &recover->bring;
	for (uint32_t i = 0; i < bring->nholders; i++)
		if (bring->holders[i].rank == rank && !tried--)
			return (int)bring->holders[i].node;
	return -1;
}

static const char *name_of(const struct daemon *daemon, uint32_t node)
{
	return node < daemon->roster->n ? daemon->roster->nodes[node].name : "?";
}

/* What one holder has in another shape, no other has in this one. */
static void passed(struct recover *recover, const struct rank *rank, uint32_t node, int rc, const char *text)
{
	const char *name = name_of(recover->job->daemon, node);
	recover->unfit |= rc == -ESTALE;
	recover_add_why(recover->text, "rank %u from node %s: %s", rank->id, name, text);
	recover_note_skipped(recover, 1ull << rank->index, "peer %s: %s", name, text);
}

static void fetched(void *arg, const struct replica_fetched *done)
{
	struct job *job = job_find(arg, done->job);
	struct rank *rank = job ? job_rank(job, done->rank) : NULL;
	struct recover *recover = job ? &job->recover : NULL;
	if (!rank || !(recover->fetching & 1ull << rank->index))
		return;
	recover->fetching &= ~(1ull << rank->index);
	if (recover->state != RECOVER_PEER) {
		recover_end_claim(recover);
		return;
	}
	if (!done->rc) {
		recover->lacking &= ~(1ull << rank->index);
		recover_note_brought(recover, 1ull << rank->index, WIRE_FROM_PEER, done->from);
	} else {
		passed(recover, rank, done->from, done->rc, done->err.text);
	}
	recover_peer_start(recover);
}

/* May be loaded while the rest is fetched. */
static void arrived(void *arg, const char *name, uint32_t id, uint64_t first, uint64_t count)
{
	struct job *job = job_find(arg, name);
	struct rank *rank = job ? job_rank(job, id) : NULL;
	struct memory *mems[WIRE_LOCAL_MAX];
	if (!rank || job->recover.state != RECOVER_PEER || !(job->recover.fetching & 1ull << rank->index))
		return;
	for (uint32_t r = 0; r < job->nlocal; r++)
		mems[r] = job->recover.claimed[r];
	recover_there(mems, job->nlocal, rank->index, first, count);
}

static int fetch_from(struct recover *recover, const struct rank *rank, uint32_t node)
{
	struct job *job = recover->job;
	const struct replica_fetch what = {.job = job->name,
					   .epoch = job->epoch,
					   .rank = rank->id,
					   .id = recover->bring.id,
					   .from = node,
					   .mem = recover->claimed[rank->index],
					   .slot = recover->slots[rank->index],
					   .arrived = arrived,
					   .done = fetched,
					   .arg = job->daemon};
	memory_bring(what.mem, what.slot, what.id);
	return node < job->daemon->roster->n ? replica_fetch(job->daemon->replica, &what) : -ENOENT;
}

static void begin_rank(struct recover *recover, const struct rank *rank)
{
	int node;
	while ((node = next_holder(recover, rank->id, recover->tried[rank->index])) >= 0) {
		recover->tried[rank->index]++;
		recover->fetching |= 1ull << rank->index;
		recover_note_begun(recover, 1ull << rank->index);
		int rc = fetch_from(recover, rank, (uint32_t)node);
		if (!rc)
			return;
		recover->fetching &= ~(1ull << rank->index);
		passed(recover, rank, (uint32_t)node, rc, err_name(rc));
	}
}

void recover_peer_start(struct recover *recover)
{
	struct job *job = recover->job;
	for (uint32_t r = 0; job->daemon->replica && r < job->nlocal; r++) {
		uint64_t bit = 1ull << r;
		if (__builtin_popcountll(recover->fetching) >= AT_ONCE)
			return;
		if (recover->lacking & bit && !(recover->fetching & bit))
			begin_rank(recover, &job->ranks[r]);
	}
	if (!recover->fetching)
		recover_peers_done(recover);
}
