#include "checkpoint/repair_donor.h"

#include "arena/room.h"

#include <stdlib.h>
#include <string.h>

void donor_drop(struct donor *donor)
{
	for (uint32_t r = 0; r < donor->nparts; r++)
		memory_put(donor->parts[r].mem);
	free(donor->parts);
	*donor = (struct donor){0};
}

/* NULL: not of this node, or nothing of it is there. */
static const struct donor_part *part_of(const struct donor *donor, uint32_t rank)
{
	for (uint32_t i = 0; i < donor->nparts; i++)
		if (donor->parts[i].mem && donor->parts[i].mem->table->reg.rank == rank)
			return &donor->parts[i];
	return NULL;
}

/* The place of the file in the rank's layout; the same bytes have the same size. */
static const struct layout_file *find(const struct memory *mem, const struct manifest_file *file, size_t *index)
{
	for (uint32_t f = 0; f < mem->layout.nfiles; f++) {
		const struct layout_file *lf = &mem->layout.files[f];
		*index = f;
		if (!strcmp(lf->group, file->group) && lf->part == file->part)
			return mem->heads[f].len == file->data_at && file->data_at + lf->data_size == file->size ? lf
														 : NULL;
	}
	return NULL;
}

int donor_read(void *arg, const struct manifest_file *file, uint64_t from, uint64_t len, void *buf)
{
	const struct donor *donor = arg;
	size_t index;
	const struct donor_part *part = part_of(donor, file->rank);
	const struct memory *mem = part ? part->mem : NULL;
	const struct layout_file *lf = mem ? find(mem, file, &index) : NULL;
	if (!lf || from + len > file->size)
		return -ENOENT;
	if (from + len <= file->data_at)
		memcpy(buf, (const uint8_t *)mem->heads[index].data + from, len);
	else if (from >= file->data_at)
		memcpy(buf, memory_slot(mem, part->slot) + lf->slot_at + (from - file->data_at), len);
	else
		return -ENOENT;
	return 0;
}
