#include "faults/fault_bits.h"

#include "arena/room.h"
#include "base/random.h"
#include "job/room.h"
#include "replication/room.h"
#include "save/room.h"

#include <stdio.h>

struct bit_place {
	uint64_t byte;
	unsigned bit;
};

/* Where the n-th byte of all pieces is in a slot: between them nothing is. */
static uint64_t byte_of_pieces(const struct layout *layout, uint64_t n)
{
	const struct layout_piece *piece = layout->pieces;
	while (n >= piece->bytes)
		n -= piece++->bytes;
	return piece->slot_at + n;
}

/* Anywhere in what is there, as the seed has it. True when it reads back flipped. */
static bool flip(struct memory *mem, uint32_t slot, uint64_t seed, struct bit_place *at)
{
	volatile uint8_t *bytes = memory_slot(mem, slot);
	const struct layout *layout = &mem->layout;
	if (!layout->npieces || !layout->data_bytes) /* what stands there is another slot's */
		return false;
	*at = (struct bit_place){.byte = byte_of_pieces(layout, random_next(&seed) % layout->data_bytes)};
	at->bit = (unsigned)(random_next(&seed) % 8);
	uint8_t was = bytes[at->byte], is = was ^ (uint8_t)(1u << at->bit);
	bytes[at->byte] = is;
	return bytes[at->byte] == is;
}

int fault_flip_arena(const struct job *job, uint32_t rank, uint64_t seed, char text[FAULT_BITS_TEXT], struct err *err)
{
	struct saves *saves = (struct saves *)&job->saves;
	const struct rank *is = job_rank(job, rank);
	const struct snapshot *s = saves_in_memory(saves, UINT64_MAX);
	const struct part *part = is && s ? &s->parts[is->index] : NULL;
	struct bit_place at;
	if (!part || part->state != PART_DIGESTED || !flip(part->mem, part->slot, seed, &at))
		return err_set(err, -ENOENT, "rank %u of job %s has no complete snapshot in memory", rank, job->name);
	snprintf(text, FAULT_BITS_TEXT, "bit %u of byte %lu of rank %u's step %lu of epoch %u flipped in its arena",
		 at.bit, (unsigned long)at.byte, rank, (unsigned long)s->id.step, s->id.epoch);
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

int fault_flip_replica(struct replica *replica, const char *job, uint32_t rank, uint64_t seed,
		       char text[FAULT_BITS_TEXT], struct err *err)
{
	struct search search = {.rank = rank};
	struct memory *mem;
	uint32_t slot;
	struct bit_place at;
	if (replica)
		replica_inventory(replica, job, look, &search);
	if (!search.id.epoch ||
	    replica_pin(replica, job, &(struct replica_part){.rank = rank, .id = search.id}, &mem, &slot))
		return err_set(err, -ENOENT, "this node holds no copy of rank %u of job %s", rank, job);
	bool flipped = flip(mem, slot, seed, &at);
	replica_unpin(replica, mem, slot);
	if (!flipped)
		return err_set(err, -ENOENT, "the copy of rank %u of job %s has no bytes", rank, job);
	snprintf(text, FAULT_BITS_TEXT,
		 "bit %u of byte %lu of rank %u's step %lu of epoch %u flipped in the copy of this node", at.bit,
		 (unsigned long)at.byte, rank, (unsigned long)search.id.step, search.id.epoch);
	return 0;
}
