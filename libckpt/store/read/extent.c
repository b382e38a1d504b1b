#include "base/bytes.h"
#include "store/read/plan.h"

/* A gap that is cheaper to read over than to skip: what a disk delivers in about the time of one request. */
#define GAP_MAX (256u << 10)

void leaf_range(const struct restore_plan *plan, struct extent_at at, uint64_t *from, uint64_t *to)
{
	const struct plan_piece *p = &plan->pieces[at.piece];
	const struct manifest_piece *saved = plan_saved(plan, p);
	uint64_t base = plan_file(plan, p->file)->data_at + saved->at;
	*from = base + (uint64_t)at.leaf * LEAF_SIZE;
	*to = base + min_u64((uint64_t)(at.leaf + 1ull) * LEAF_SIZE, saved->bytes);
}

const struct packed_chunk *leaf_chunk(const struct restore_plan *plan, struct extent_at at)
{
	const struct plan_piece *p = &plan->pieces[at.piece];
	const struct packed_index *index = &plan->indexes[p->file];
	uint64_t from, to, data_at = plan_file(plan, p->file)->data_at;
	leaf_range(plan, at, &from, &to);
	return index->nchunks ? packed_find(index, from - data_at, to - from) : NULL;
}

void leaf_stored(const struct restore_plan *plan, struct extent_at at, uint64_t *from, uint64_t *to)
{
	const struct packed_chunk *chunk = leaf_chunk(plan, at);
	if (!chunk)
		return leaf_range(plan, at, from, to);
	*from = chunk->at;
	*to = chunk->at + chunk->bytes;
}

/* The first set bit in [from, to), or `to`. */
static uint64_t next_bit(const uint64_t *words, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t word = words[from / 64] >> (from % 64);
		if (word)
			return min_u64(from + (uint64_t)__builtin_ctzll(word), to);
		from = (from / 64 + 1) * 64;
	}
	return to;
}

bool extent_seek(const struct restore_plan *plan, struct extent_at *at)
{
	for (; at->piece < plan->npieces; at->piece++, at->leaf = 0) {
		const struct plan_piece *p = &plan->pieces[at->piece];
		uint32_t leaf = at->leaf > p->first ? at->leaf : p->first;
		if (leaf >= p->end)
			continue;
		uint64_t base = p->pool - p->first;
		at->leaf = (uint32_t)(next_bit(plan->needed, base + leaf, base + p->end) - base);
		if (at->leaf < p->end)
			return true;
	}
	return false;
}

bool extent_next(const struct restore_plan *plan, uint64_t max, struct extent_at *at, struct extent *extent)
{
	if (!extent_seek(plan, at))
		return false;
	uint64_t from, to, end;
	leaf_stored(plan, *at, &from, &end);
	*extent = (struct extent){.file = plan->pieces[at->piece].file, .first = *at};
	extent->offset = from / DISK_ALIGN * DISK_ALIGN;
	do {
		at->leaf++;
		extent->end = *at;
		extent->len = align_up(end, DISK_ALIGN) - extent->offset;
		if (!extent_seek(plan, at) || plan->pieces[at->piece].file != extent->file)
			break;
		leaf_stored(plan, *at, &from, &to);
		if (from > end + GAP_MAX)
			break;
		end = to;
	} while (align_up(end, DISK_ALIGN) - extent->offset <= max);
	return true;
}
