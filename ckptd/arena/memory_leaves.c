#include "arena/memory.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <stdio.h>

static uint32_t piece_of_leaf(const struct layout *layout, uint64_t leaf)
{
	uint32_t low = 0, high = layout->npieces;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;
		if (layout->pieces[mid].first_leaf <= leaf)
			low = mid;
		else
			high = mid;
	}
	/* Empty pieces share their first leaf with the next one: the last of them with bytes owns it. */
	while (low > 0 && !layout->pieces[low].bytes)
		low--;
	return low;
}

void memory_digest(const struct memory *mem, uint32_t slot, uint64_t first, uint64_t count, uint64_t *out)
{
	const struct layout *layout = &mem->layout;
	const uint8_t *data = memory_slot(mem, slot);
	uint64_t end = first + count;
	for (uint32_t p = piece_of_leaf(layout, first); first < end; p++) {
		const struct layout_piece *piece = &layout->pieces[p];
		uint64_t within = first - piece->first_leaf;
		uint64_t n = min_u64(end - first, leaf_count(piece->bytes) - within);
		uint64_t at = within * LEAF_SIZE;
		if (!n)
			continue;
		digest_leaves(data + piece->slot_at + at, min_u64(n * LEAF_SIZE, piece->bytes - at), out);
		out += n;
		first += n;
	}
}

void memory_name_leaf(const struct memory *mem, uint64_t leaf, char *dst, size_t size)
{
	const struct layout_piece *piece = &mem->layout.pieces[piece_of_leaf(&mem->layout, leaf)];
	uint64_t from = (leaf - piece->first_leaf) * LEAF_SIZE;
	const struct entry *entry = &mem->table->reg.entries[piece->entry];
	snprintf(dst, size, "tensor '%s' of rank %u, bytes %lu to %lu of its piece %u", entry->name,
		 mem->table->reg.rank, (unsigned long)from, (unsigned long)min_u64(from + LEAF_SIZE, piece->bytes),
		 piece->source);
}

uint64_t memory_leaf_at(const struct memory *mem, uint64_t leaf)
{
	const struct layout *layout = &mem->layout;
	if (leaf >= layout->nleaves)
		return mem->slot_size;
	const struct layout_piece *piece = &layout->pieces[piece_of_leaf(layout, leaf)];
	return piece->slot_at + (leaf - piece->first_leaf) * LEAF_SIZE;
}

uint64_t memory_leaves_within(const struct memory *mem, uint64_t bytes)
{
	const struct layout *layout = &mem->layout;
	uint32_t low = 0, high = layout->npieces;
	while (low < high) { /* the first piece that ends behind */
		uint32_t mid = low + (high - low) / 2;
		if (layout->pieces[mid].slot_at + layout->pieces[mid].bytes <= bytes)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == layout->npieces)
		return layout->nleaves;
	const struct layout_piece *piece = &layout->pieces[low];
	return piece->first_leaf + (bytes > piece->slot_at ? (bytes - piece->slot_at) / LEAF_SIZE : 0);
}
