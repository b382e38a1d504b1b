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
static void passed(struct restore *restore, uint32_t index, uint32_t node, int rc, const char *text)
{
	const char *name = name_of(restore->of.peers, node);
	restore->unfit |= rc == -ESTALE;
	restore_add_why(restore->text, "rank %u from node %s: %s", restored_rank(restore, index).id, name, text);
	restore_note_skipped(restore, 1ull << index, "peer %s: %s", name, text);
}

void restore_fetched(struct restore *restore, uint32_t index, const struct replica_fetched *done)
{
	if (!(restore->fetching & 1ull << index))
		return;
	restore->fetching &= ~(1ull << index);
	if (restore->state != RESTORE_PEER) {
		restore_end_claim(restore);
		return;
	}
	if (!done->rc) {
		restore->lacking &= ~(1ull << index);
		restore->copied |= 1ull << index;
		restore_note_brought(restore, 1ull << index, WIRE_FROM_PEER, done->from);
	} else {
		passed(restore, index, done->from, done->rc, done->err.text);
	}
	restore_peer_start(restore);
}

void restore_arrived(struct restore *restore, uint32_t index, uint64_t first, uint64_t count)
{
	if (restore->state == RESTORE_PEER && restore->fetching & 1ull << index)
		restore_there(restore->claimed, *restore->of.nlocal, index, first, count);
}

static int fetch_from(struct restore *restore, uint32_t index, uint32_t node)
{
	memory_bring(restore->claimed[index], restore->slots[index], restore->bring.id);
	return node < restore->of.peers->roster->n ? restore->of.fetch(restore->of.job, index, node) : -ENOENT;
}

static void begin_rank(struct restore *restore, uint32_t index)
{
	uint32_t rank = restored_rank(restore, index).id;
	int node;
	while ((node = next_holder(restore, rank, restore->tried[index])) >= 0) {
		restore->tried[index]++;
		restore->fetching |= 1ull << index;
		restore_note_begun(restore, 1ull << index);
		int rc = fetch_from(restore, index, (uint32_t)node);
		if (!rc)
			return;
		restore->fetching &= ~(1ull << index);
		passed(restore, index, (uint32_t)node, rc, err_name(rc));
	}
}

void restore_peer_start(struct restore *restore)
{
	for (uint32_t r = 0; restore->of.peers->replica && r < *restore->of.nlocal; r++) {
		uint64_t bit = 1ull << r;
		if (__builtin_popcountll(restore->fetching) >= AT_ONCE)
			return;
		if (restore->lacking & bit && !(restore->fetching & bit))
			begin_rank(restore, r);
	}
	if (!restore->fetching)
		restore_peers_done(restore);
}
