#include "arena/memory.h"

#include "base/bytes.h"

#include <stdlib.h>

/* The next one that is odd, or even, whatever a rank has scribbled there. */
static void set_turn(struct memory *mem, bool open)
{
	struct arena_bring *shown = &mem->head->bring;
	uint32_t turn = atomic_load(&shown->turn);
	atomic_store(&shown->turn, turn + 1 + ((turn & 1) == open));
	/* Nothing that is written to the slot later is seen before. */
	atomic_thread_fence(memory_order_seq_cst);
	mem->bring.open = open;
}

void memory_bring_end(struct memory *mem)
{
	if (mem->bring.open)
		set_turn(mem, false);
}

void memory_bring(struct memory *mem, uint32_t slot, struct step_id id)
{
	struct bring *b = &mem->bring;
	struct arena_bring *shown = &mem->head->bring;
	uint64_t nleaves = mem->layout.nleaves;
	memory_bring_end(mem);
	if (!b->left)
		b->left = calloc(ARENA_GRANULES, sizeof(*b->left));
	if (!b->left)
		return;
	b->slot = slot;
	b->granule = arena_granule(nleaves);
	for (uint64_t g = 0; g * b->granule < nleaves; g++)
		atomic_store(&b->left[g], min_u64(nleaves - g * b->granule, b->granule));
	for (unsigned i = 0; i < ARENA_GRANULES / 64; i++)
		atomic_store(&shown->there[i], 0);
	atomic_store(&shown->slot, slot);
	atomic_store(&shown->step, id.step);
	atomic_store(&shown->epoch, id.epoch);
	atomic_store(&shown->no_blobs, 0);
	set_turn(mem, true);
}

void memory_bring_no_blobs(struct memory *mem)
{
	atomic_store(&mem->head->bring.no_blobs, 1);
}

bool memory_brought(struct memory *mem, uint64_t first, uint64_t count)
{
	struct bring *b = &mem->bring;
	bool whole = false;
	for (uint64_t end = first + count; b->left && first < end;) {
		uint64_t g = first / b->granule, n = min_u64(end, (g + 1) * b->granule) - first;
		first += n;
		if (atomic_fetch_sub(&b->left[g], n) != n)
			continue;
		atomic_fetch_or_explicit(&mem->head->bring.there[g / 64], 1ull << g % 64, memory_order_release);
		whole = true;
	}
	return whole;
}

/* ---- what is said of a slot ------------------------------------------------------------------------------------ */

uint32_t memory_began(const struct memory *mem, uint32_t slot)
{
	uint32_t began = mem->head ? mem->head->slots[slot].began : mem->slots[slot].began;
	return began <= mem->slots[slot].id.epoch ? began : 0;
}

void memory_tell_began(struct memory *mem, uint32_t slot, uint32_t began)
{
	mem->head->slots[slot].began = began;
}

uint32_t memory_lacks(const struct memory *mem, uint32_t slot)
{
	uint32_t flags = mem->head ? mem->head->slots[slot].flags : mem->slots[slot].lacks;
	return flags & (SLOT_PARTIAL | SLOT_NO_BLOBS);
}

void memory_tell_lacks(struct memory *mem, uint32_t slot, uint32_t lacks)
{
	mem->head->slots[slot].flags = lacks & (SLOT_PARTIAL | SLOT_NO_BLOBS);
}
