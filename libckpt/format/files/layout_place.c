#include "format/arena/layout_plan.h"

#include "format/arena/witness.h"
#include "format/files/safetensors.h"

#include <stdlib.h>
#include <string.h>

#define LAYOUT_BYTES_MAX (1ull << 62)

bool plan_replicated(const struct entry *e)
{
	return e->kind == ENTRY_JOB_BLOB || e->replica[0];
}

int plan_order(const struct plan_choice *a, const struct plan_choice *b)
{
	int order = strcmp(a->entry->group, b->entry->group);
	if (order)
		return order;
	if (plan_replicated(a->entry) != plan_replicated(b->entry))
		return plan_replicated(a->entry) ? 1 : -1;
	if (!plan_same_share(a->entry, b->entry)) {
		bool blob = a->entry->kind == ENTRY_JOB_BLOB || b->entry->kind == ENTRY_JOB_BLOB;
		return blob ? (a->entry->kind == ENTRY_JOB_BLOB ? -1 : 1)
			    : strcmp(a->entry->replica, b->entry->replica);
	}
	unsigned a_size = dtype_size(a->entry->dtype), b_size = dtype_size(b->entry->dtype);
	if (a_size != b_size)
		return a_size > b_size ? -1 : 1;
	order = strcmp(a->entry->name, b->entry->name);
	if (order)
		return order;
	return a->first < b->first ? -1 : a->first > b->first;
}

static int by_order(const void *a, const void *b)
{
	return plan_order(a, b);
}

static uint64_t bytes_of(const struct entry *e, const struct region *r)
{
	return region_volume(&e->shape, r) * dtype_size(e->dtype);
}

static int derive_file(struct layout *layout, const struct registration *reg, struct layout_file *f)
{
	f->data_size = 0;
	const struct entry *first = f->npieces ? &reg->entries[layout->pieces[f->first_piece].entry] : NULL;
	f->share = first ? layout_share_of(first) : 0;
	for (uint32_t i = 0; i < f->npieces; i++) {
		struct layout_piece *p = &layout->pieces[f->first_piece + i];
		if (!plan_same_share(&reg->entries[p->entry], first))
			return -EINVAL;
		p->file = (uint32_t)(f - layout->files);
		p->bytes = bytes_of(&reg->entries[p->entry], &p->region);
		p->at = f->data_size;
		p->slot_at = f->slot_at + p->at;
		p->first_leaf = layout->nleaves;
		layout->nleaves += leaf_count(p->bytes);
		layout->data_bytes += p->bytes;
		f->data_size += p->bytes;
		if (p->bytes > LAYOUT_BYTES_MAX || layout->data_bytes > LAYOUT_BYTES_MAX)
			return -EOVERFLOW;
	}
	return 0;
}

int layout_derive(struct layout *layout, const struct registration *reg)
{
	uint32_t placed = 0;
	layout->slot_size = layout->data_bytes = layout->nleaves = 0;
	for (uint32_t i = 0; i < layout->nfiles; i++) {
		struct layout_file *f = &layout->files[i];
		if (f->npieces > layout->npieces - placed)
			return -EINVAL;
		f->first_piece = placed;
		f->slot_at = layout->slot_size;
		int rc = derive_file(layout, reg, f);
		if (rc < 0)
			return rc;
		placed += f->npieces;
		layout->slot_size += align_up(f->data_size, LAYOUT_ALIGN);
	}
	if (placed != layout->npieces)
		return -EINVAL;
	layout->nwitnesses = witness_leaves(reg, layout);
	return 0;
}

/* What the file that is being filled holds. */
struct filling {
	struct layout_file *file;  /* NULL: none yet */
	const struct entry *entry; /* of its first piece */
	uint64_t data, header;     /* bytes; header: at most */
};

/* A group's file takes pieces while they fit. */
static bool fits(const struct filling *f, const struct entry *e, uint64_t bytes, uint64_t header, uint64_t file_max)
{
	if (!f->file || strcmp(f->file->group, e->group) || !plan_same_share(f->entry, e))
		return false;
	if (header > SAFETENSORS_HEADER_MAX - SAFETENSORS_FRAME_MAX - f->header)
		return false;
	return f->data <= file_max && bytes <= file_max - f->data;
}

static int next_file(struct layout *layout, struct filling *f, const struct entry *e)
{
	bool next_part = f->file && !strcmp(f->file->group, e->group);
	uint32_t part = next_part ? f->file->part + 1 : 0;
	if (part >= PART_MAX)
		return -E2BIG;
	*f = (struct filling){.file = &layout->files[layout->nfiles++], .entry = e};
	memcpy(f->file->group, e->group, sizeof(f->file->group));
	f->file->part = part;
	return 0;
}

/* Cuts the sorted choices into files; layout->files has room for one per choice. */
static int cut_files(struct layout *layout, const struct plan_choice *choices, uint32_t n, uint64_t file_max)
{
	struct filling f = {0};
	for (uint32_t i = 0; i < n; i++) {
		const struct plan_choice *c = &choices[i];
		uint64_t bytes = bytes_of(c->entry, &c->region), header = safetensors_piece_max(c->entry);
		int rc = fits(&f, c->entry, bytes, header, file_max) ? 0 : next_file(layout, &f, c->entry);
		if (rc < 0)
			return rc;
		f.file->npieces++;
		f.data += bytes;
		f.header += header;
		layout->pieces[i] = (struct layout_piece){.entry = c->index, .source = c->source, .region = c->region};
	}
	return 0;
}

int plan_place(struct plan *plan, uint32_t reg, uint64_t file_max, struct layout *layout, struct err *err)
{
	const struct registration *r = plan->regs[reg];
	uint32_t n = plan->nchoices[reg];
	qsort(plan->choices[reg], n, sizeof(**plan->choices), by_order);
	*layout = (struct layout){.rank = r->rank, .world = r->world, .npieces = n};
	layout->files = calloc((size_t)n + 1, sizeof(*layout->files));
	layout->pieces = calloc((size_t)n + 1, sizeof(*layout->pieces));
	if (!layout->files || !layout->pieces)
		return err_set(err, -ENOMEM, "no memory for the layout of rank %u", r->rank);
	int rc = cut_files(layout, plan->choices[reg], n, file_max);
	if (rc < 0)
		return err_set(err, rc, "a group of rank %u needs more than %d files of %llu bytes; use more groups",
			       r->rank, PART_MAX, (unsigned long long)file_max);
	rc = layout_derive(layout, r);
	return rc < 0 ? err_set(err, rc, "rank %u holds more than 2^62 bytes", r->rank) : 0;
}
