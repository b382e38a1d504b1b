#include "restore/sized_blobs.h"

#include "base/bytes.h"
#include "format/arena/sized_blob.h"

#include <inttypes.h>
#include <string.h>

static const struct manifest_tensor *find(const struct checkpoint *ck, const char *name)
{
	for (uint32_t n = 0; n < ck->nnodes; n++)
		for (uint32_t t = 0; t < ck->nodes[n].ntensors; t++)
			if (!strcmp(ck->nodes[n].tensors[t].name, name))
				return &ck->nodes[n].tensors[t];
	return NULL;
}

static bool has_sized(const struct checkpoint *ck)
{
	bool any = false;
	for (uint32_t n = 0; n < ck->nnodes; n++)
		for (uint32_t t = 0; t < ck->nodes[n].ntensors && !any; t++)
			any = ck->nodes[n].tensors[t].sized;
	return any;
}

bool sized_concerns(const struct checkpoint *ck, const struct entry *entry)
{
	return entry->sized || (entry->kind != ENTRY_TENSOR && has_sized(ck));
}

void sized_range(const struct entry *entry, const struct region *region, uint64_t *start, uint64_t *count)
{
	region_contiguous(&entry->shape, region, start, count); /* of one dimension all are */
}

int sized_narrow(const struct checkpoint *ck, const struct entry *entry, struct want *want, bool *any, struct err *err)
{
	const struct manifest_tensor *saved = find(ck, entry->name);
	uint64_t start, count;
	*any = true;
	if (saved && saved->sized != entry->sized)
		return err_set(err, -EINVAL,
			       "blob %s: rank %u has registered it with a %s size, and it was saved with a %s one",
			       entry->name, want->owner, entry->sized ? "changing" : "fixed",
			       saved->sized ? "changing" : "fixed");
	if (!saved || !entry->sized)
		return 0;
	sized_range(entry, &want->region, &start, &count);
	uint64_t end = min_u64(start + count, saved->shape.dim[0]);
	*any = start < end;
	want->shape = saved->shape;
	want->region = region_flat(start, *any ? end - start : 0);
	return 0;
}

int sized_check(const struct entry *entry, uint32_t rank, const void *head, uint64_t saved, struct err *err)
{
	uint64_t length = sized_length(head), room = entry->shape.dim[0] - SIZED_HEAD;
	if (length > saved - SIZED_HEAD)
		return err_set(err, -EBADMSG, "blob %s: it says that it has %" PRIu64 " bytes, in a room of %" PRIu64,
			       entry->name, length, saved - SIZED_HEAD);
	if (length > room)
		return err_set(err, -EINVAL,
			       "blob %s: %" PRIu64 " bytes were saved, and rank %u has registered room for %" PRIu64,
			       entry->name, length, rank, room);
	return 0;
}

int sized_settle(const struct checkpoint *ck, const struct memory *mem, uint32_t slot, const struct layout_piece *piece,
		 struct err *err)
{
	const struct entry *entry = &mem->table->reg.entries[piece->entry];
	const struct manifest_tensor *saved = find(ck, entry->name);
	uint8_t *data = memory_slot(mem, slot) + piece->slot_at;
	uint64_t start, count, there = saved ? saved->shape.dim[0] : 0;
	sized_range(entry, &piece->region, &start, &count);
	uint64_t kept = there > start ? min_u64(there - start, count) : 0;
	int rc = saved && !start ? sized_check(entry, mem->table->reg.rank, data, there, err) : 0;
	memset(data + kept, 0, count - kept);
	memory_digest(mem, slot, piece->first_leaf, leaf_count(piece->bytes),
		      memory_leaves(mem, slot) + piece->first_leaf);
	return rc;
}
