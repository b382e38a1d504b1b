#include "faults/fault_bits.h"

#include "arena/room.h"
#include "job/room.h"
#include "replication/room.h"
#include "save/room.h"

#include <stdio.h>

/* In the middle of what is there. True when it reads back flipped. */
static bool flip(struct memory *mem, uint32_t slot, uint64_t *at)
{
	volatile uint8_t *bytes = memory_slot(mem, slot);
	uint64_t end = memory_leaf_at(mem, mem->layout.nleaves);
	*at = end / 2;
	if (!end) /* what stands there is another slot's */
		return false;
	uint8_t was = bytes[*at];
	bytes[*at] = was ^ 8;
	return bytes[*at] == (uint8_t)(was ^ 8);
}

int fault_flip_arena(const struct job *job, uint32_t rank, char text[FAULT_BITS_TEXT], struct err *err)
{
	struct saves *saves = (struct saves *)&job->saves;
	const struct rank *is = job_rank(job, rank);
	const struct snapshot *s = saves_in_memory(saves, UINT64_MAX);
	const struct part *part = is && s ? &s->parts[is->index] : NULL;
	uint64_t at;
	if (!part || part->state != PART_DIGESTED || !flip(part->mem, part->slot, &at))
		return err_set(err, -ENOENT, "rank %u of job %s has no complete snapshot in memory", rank, job->name);
	snprintf(text, FAULT_BITS_TEXT, "bit 3 of byte %lu of rank %u's step %lu of epoch %u flipped in its arena",
		 (unsigned long)at, rank, (unsigned long)s->id.step, s->id.epoch);
	return 0;
}

struct search {
	uint32_t rank;
	struct step_id id;
};

static void look(void *arg, const struct replica_item *item)
{
	struct search *s = arg;
	if (item->rank == s->rank && step_compare(item->id, s->id) > 0)
		s->id = item->id;
}

int fault_flip_replica(struct replica *replica, const char *job, uint32_t rank, char text[FAULT_BITS_TEXT],
		       struct err *err)
{
	struct search search = {.rank = rank};
	struct memory *mem;
	uint32_t slot;
	uint64_t at;
	if (replica)
		replica_inventory(replica, job, look, &search);
	if (!search.id.epoch ||
	    replica_pin(replica, job, &(struct replica_part){.rank = rank, .id = search.id}, &mem, &slot))
		return err_set(err, -ENOENT, "this node holds no copy of rank %u of job %s", rank, job);
	bool flipped = flip(mem, slot, &at);
	replica_unpin(replica, mem, slot);
	if (!flipped)
		return err_set(err, -ENOENT, "the copy of rank %u of job %s has no bytes", rank, job);
	snprintf(text, FAULT_BITS_TEXT,
		 "bit 3 of byte %lu of rank %u's step %lu of epoch %u flipped in the copy of this node",
		 (unsigned long)at, rank, (unsigned long)search.id.step, search.id.epoch);
	return 0;
}
