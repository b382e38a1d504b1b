#include "checkpoint/repair_donor.h"

#include "arena/memory.h"
#include "save/snapshot.h"

#include <stdlib.h>
#include <string.h>

int salvage_take(const struct snapshot *s, struct salvage *out)
{
	*out = (struct salvage){0};
	if (!s)
		return 0;
	out->parts = calloc(s->nparts, sizeof(*out->parts));
	if (!out->parts)
		return -ENOMEM;
	out->nparts = s->nparts;
	for (uint32_t r = 0; r < s->nparts; r++)
		if (s->parts[r].state == PART_DIGESTED)
			out->parts[r] = (struct salvage_part){memory_get(s->parts[r].mem), s->parts[r].slot};
	return 0;
}

void salvage_drop(struct salvage *salvage)
{
	for (uint32_t r = 0; r < salvage->nparts; r++)
		memory_put(salvage->parts[r].mem);
	free(salvage->parts);
	*salvage = (struct salvage){0};
}

/* NULL: not of this node, or nothing of it is there. */
static const struct salvage_part *part_of(const struct salvage *salvage, uint32_t rank)
{
	for (uint32_t i = 0; i < salvage->nparts; i++)
		if (salvage->parts[i].mem && salvage->parts[i].mem->table->reg.rank == rank)
			return &salvage->parts[i];
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

int salvage_read(void *arg, const struct manifest_file *file, uint64_t from, uint64_t len, void *buf)
{
	const struct salvage *salvage = arg;
	size_t index;
	const struct salvage_part *part = part_of(salvage, file->rank);
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
