#include "restore/restore_private.h"

#include "cluster/room.h"
#include "replication/room.h"

#include <stdio.h>

enum { AT_ONCE = 8 }; /* parts that are fetched at the same time */

/* The next node that may have the rank's part, after those that were tried; -1: none is left. */
static int next_holder(const struct restore *restore, uint32_t rank, uint32_t tried)
{
	const struct peer_restore_fetch *bring = &restore->bring;
	for (uint32_t i = 0; i < bring->nholders; i++)
		if (bring->holders[i].rank == rank && !tried--)
			return (int)bring->holders[i].node;
	return -1;
}

static const char *name_of(const struct peers *peers, uint32_t node)
{
	return node < peers->roster->n ? peers->roster->nodes[node].name : "?";
}

/* What one holder has in another shape, no other has in this one. */
static void passed(struct restore *restore, const struct rank *rank, uint32_t node, int rc, const char *text)
{
	const char *name = name_of(restore->job->peers, node);
	restore->unfit |= rc == -ESTALE;
	restore_add_why(restore->text, "rank %u from node %s: %s", rank->id, name, text);
	restore_note_skipped(restore, 1ull << rank->index, "peer %s: %s", name, text);
}

static void fetched(void *arg, const struct replica_fetched *done)
{
	struct job *job = job_find(arg, done->job);
	struct rank *rank = job ? job_rank(job, done->rank) : NULL;
	struct restore *restore = job ? &job->restore : NULL;
	if (!rank || !(restore->fetching & 1ull << rank->index))
		return;
	restore->fetching &= ~(1ull << rank->index);
	if (restore->state != RESTORE_PEER) {
		restore_end_claim(restore);
		return;
	}
	if (!done->rc) {
		restore->lacking &= ~(1ull << rank->index);
		restore_note_brought(restore, 1ull << rank->index, WIRE_FROM_PEER, done->from);
	} else {
		passed(restore, rank, done->from, done->rc, done->err.text);
	}
	restore_peer_start(restore);
}

/* May be loaded while the rest is fetched. */
static void arrived(void *arg, const char *name, uint32_t id, uint64_t first, uint64_t count)
{
	struct job *job = job_find(arg, name);
	struct rank *rank = job ? job_rank(job, id) : NULL;
	struct memory *mems[WIRE_LOCAL_MAX];
	if (!rank || job->restore.state != RESTORE_PEER || !(job->restore.fetching & 1ull << rank->index))
		return;
	for (uint32_t r = 0; r < job->nlocal; r++)
		mems[r] = job->restore.claimed[r];
	restore_there(mems, job->nlocal, rank->index, first, count);
}

static int fetch_from(struct restore *restore, const struct rank *rank, uint32_t node)
{
	struct job *job = restore->job;
	const struct replica_fetch what = {.job = job->name,
					   .epoch = job->epoch,
					   .rank = rank->id,
					   .id = restore->bring.id,
					   .from = node,
					   .mem = restore->claimed[rank->index],
					   .slot = restore->slots[rank->index],
					   .arrived = arrived,
					   .done = fetched,
					   .arg = job->jobs};
	memory_bring(what.mem, what.slot, what.id);
	return node < job->peers->roster->n ? replica_fetch(job->peers->replica, &what) : -ENOENT;
}

static void begin_rank(struct restore *restore, const struct rank *rank)
{
	int node;
	while ((node = next_holder(restore, rank->id, restore->tried[rank->index])) >= 0) {
		restore->tried[rank->index]++;
		restore->fetching |= 1ull << rank->index;
		restore_note_begun(restore, 1ull << rank->index);
		int rc = fetch_from(restore, rank, (uint32_t)node);
		if (!rc)
			return;
		restore->fetching &= ~(1ull << rank->index);
		passed(restore, rank, (uint32_t)node, rc, err_name(rc));
	}
}

void restore_peer_start(struct restore *restore)
{
	struct job *job = restore->job;
	for (uint32_t r = 0; job->peers->replica && r < job->nlocal; r++) {
		uint64_t bit = 1ull << r;
		if (__builtin_popcountll(restore->fetching) >= AT_ONCE)
			return;
		if (restore->lacking & bit && !(restore->fetching & bit))
			begin_rank(restore, &job->ranks[r]);
	}
	if (!restore->fetching)
		restore_peers_done(restore);
}
