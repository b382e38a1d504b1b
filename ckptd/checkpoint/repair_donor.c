#include "checkpoint/repair_donor.h"

#include "arena/room.h"
#include "checkpoint/file_span.h"
#include "checkpoint/part_layout.h"

#include <stdlib.h>
#include <string.h>

void donor_drop(struct donor *donor)
{
	for (uint32_t r = 0; r < donor->nparts; r++)
		memory_put(donor->parts[r].mem);
	free(donor->parts);
	part_layout_put(donor->layout);
	*donor = (struct donor){0};
}

/* Index of its part; nparts: not of this node, or nothing of it is there. */
static uint32_t part_of(const struct donor *donor, uint32_t rank)
{
	uint32_t i = 0;
	while (i < donor->nparts && (!donor->parts[i].mem || donor->parts[i].mem->table->reg.rank != rank))
		i++;
	return i;
}

/* The place of the file in what was written of the rank; the same bytes have the same size. */
static const struct layout_file *find(const struct layout *layout, const struct head_block *heads,
				      const struct manifest_file *file, const struct head_block **head)
{
	for (uint32_t f = 0; f < layout->nfiles; f++) {
		const struct layout_file *lf = &layout->files[f];
		*head = &heads[f];
		if (!strcmp(lf->group, file->group) && lf->part == file->part)
			return heads[f].len == file->data_at && file->data_at + lf->data_size == file->size ? lf : NULL;
	}
	return NULL;
}

/* Bytes of its data section. */
static void copy_data(const struct layout *layout, const struct layout_file *lf, const uint8_t *slot, uint64_t from,
		      uint64_t len, uint8_t *buf)
{
	struct file_span span;
	for (uint32_t piece = 0; file_span_next(layout, lf, &piece, &span);) {
		uint64_t first = max_u64(from, span.at), end = min_u64(from + len, span.at + span.bytes);
		if (first < end)
			memcpy(buf + (first - from), slot + span.slot_at + (first - span.at), end - first);
	}
}

int donor_read(void *arg, const struct manifest_file *file, uint64_t from, uint64_t len, void *buf)
{
	const struct donor *donor = arg;
	uint32_t i = part_of(donor, file->rank);
	if (i == donor->nparts)
		return -ENOENT;
	const struct memory *mem = donor->parts[i].mem;
	const struct part_layout_rank *written = part_layout_of(donor->layout, i, mem);
	const struct head_block *head;
	const struct layout *layout = written ? &written->layout : &mem->layout;
	const struct layout_file *lf = find(layout, written ? written->heads : mem->heads, file, &head);
	if (!lf || from + len > file->size)
		return -ENOENT;
	if (from + len <= file->data_at)
		memcpy(buf, (const uint8_t *)head->data + from, len);
	else if (from >= file->data_at)
		copy_data(layout, lf, memory_slot(mem, donor->parts[i].slot), from - file->data_at, len, buf);
	else
		return -ENOENT;
	return 0;
}
