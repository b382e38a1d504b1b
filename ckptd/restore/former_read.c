#include "restore/former.h"

#include "arena/room.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/threads.h"
#include "restore/sized_blobs.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 8 };

/* A piece in an arena: of a rank there, by index. */
struct part_of {
	uint32_t rank, piece;
};

struct reading {
	const struct former_source *source;
	const struct former_target *target;
	struct part_of *saved; /* nsaved, by name */
	size_t nsaved;
	struct part_of *wanted; /* nwanted */
	size_t nwanted;
	_Atomic size_t next; /* of wanted */
	struct err *err;
};

static const struct layout_piece *piece_of(const struct memory *mem, uint32_t piece)
{
	return &mem->layout.pieces[piece];
}

static const struct entry *entry_of(const struct memory *mem, uint32_t piece)
{
	return &mem->table->reg.entries[piece_of(mem, piece)->entry];
}

/* ---- what there is --------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b, void *context)
{
	const struct former_source *source = context;
	const struct part_of *x = a, *y = b;
	return strcmp(entry_of(source->mems[x->rank], x->piece)->name, entry_of(source->mems[y->rank], y->piece)->name);
}

static struct part_of *list_pieces(struct memory *const *mems, uint32_t n, size_t *count)
{
	size_t all = 0, at = 0;
	for (uint32_t r = 0; r < n; r++)
		all += mems[r]->layout.npieces;
	struct part_of *parts = calloc(all ? all : 1, sizeof(*parts));
	for (uint32_t r = 0; parts && r < n; r++)
		for (uint32_t p = 0; p < mems[r]->layout.npieces; p++)
			parts[at++] = (struct part_of){.rank = r, .piece = p};
	*count = all;
	return parts;
}

/* The first saved piece of the name, or of the next one. */
static size_t find_name(const struct reading *r, const char *name)
{
	size_t from = 0, to = r->nsaved;
	while (from < to) {
		size_t mid = (from + to) / 2;
		const struct part_of *part = &r->saved[mid];
		if (strcmp(entry_of(r->source->mems[part->rank], part->piece)->name, name) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* Of the entry, from *at on. NULL: no more. */
static const struct part_of *next_saved(const struct reading *r, const struct entry *entry, size_t *at)
{
	const struct part_of *part = &r->saved[*at];
	if (*at == r->nsaved || strcmp(entry_of(r->source->mems[part->rank], part->piece)->name, entry->name) != 0)
		return NULL;
	++*at;
	return part;
}

/* ---- whether that is what is wanted ---------------------------------------------------------------------------- */

/* Of ranks on several nodes this one has a part: another may have the tensor. */
static int refuse_missing(const struct reading *r, const struct entry *entry, uint32_t rank)
{
	struct step_id id = r->source->id;
	return err_set(r->err, -EINVAL,
		       "tensor %s, which rank %u wants, is not in %sstep %lu epoch %u, left in memory by a world of %u",
		       entry->name, rank, r->source->n < r->source->world ? "this node's part of " : "",
		       (unsigned long)id.step, id.epoch, r->source->world);
}

static int refuse_type(const struct reading *r, const struct entry *entry, uint32_t rank, const struct entry *has)
{
	char a[128], b[128];
	struct step_id id = r->source->id;
	return err_set(r->err, -EINVAL,
		       "tensor %s: rank %u wants %s %s, step %lu epoch %u, left in memory by a world of %u, has %s %s",
		       entry->name, rank, dtype_name(entry->dtype), shape_text(&entry->shape, a, sizeof(a)),
		       (unsigned long)id.step, id.epoch, r->source->world, dtype_name(has->dtype),
		       shape_text(&has->shape, b, sizeof(b)));
}

static int refuse_hole(const struct reading *r, const struct entry *entry, uint32_t rank, uint64_t lacking)
{
	struct step_id id = r->source->id;
	return err_set(
		r->err, -EINVAL,
		"tensor %s: %lu of the elements that rank %u wants are not in this node's memory of step %lu epoch "
		"%u, which %u ranks have left",
		entry->name, (unsigned long)lacking, rank, (unsigned long)id.step, id.epoch, r->source->world);
}

/* A blob of a rank that there was not. */
static bool is_new(const struct reading *r, const struct entry *entry, uint32_t rank)
{
	return entry->kind == ENTRY_RANK_BLOB && rank >= r->source->saved_world;
}

static const uint8_t *data_of(const struct reading *r, const struct part_of *saved)
{
	const struct memory *mem = r->source->mems[saved->rank];
	return memory_slot(mem, r->source->slots[saved->rank]) + piece_of(mem, saved->piece)->slot_at;
}

static int check_wanted(const struct reading *r, const struct part_of *want)
{
	const struct memory *mem = r->target->mems[want->rank];
	const struct entry *entry = entry_of(mem, want->piece);
	const struct region *region = &piece_of(mem, want->piece)->region;
	const struct part_of *saved;
	uint32_t rank = mem->table->reg.rank;
	uint64_t there = 0, volume = region_volume(&entry->shape, region);
	size_t at = find_name(r, entry->name), first = at;
	if (!volume)
		return 0;
	while ((saved = next_saved(r, entry, &at))) {
		const struct memory *from = r->source->mems[saved->rank];
		const struct entry *has = entry_of(from, saved->piece);
		if (has->dtype != entry->dtype || has->sized != entry->sized ||
		    (!entry->sized && !shape_equal(&has->shape, &entry->shape)))
			return refuse_type(r, entry, rank, has);
		there +=
			entry->sized ? 0 : overlap_volume(&entry->shape, &piece_of(from, saved->piece)->region, region);
	}
	if (is_new(r, entry, rank))
		return 0;
	if (at == first)
		return refuse_missing(r, entry, rank);
	return !entry->sized && there < volume ? refuse_hole(r, entry, rank, volume - there) : 0;
}

/* An entry of which a rank has no piece is wanted all the same, but not by it. */
static int check_all(const struct reading *r)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < r->nwanted; i++)
		rc = check_wanted(r, &r->wanted[i]);
	return rc;
}

static int check_digests(const struct reading *r)
{
	for (uint32_t k = 0; k < r->source->n; k++) {
		char name[ERR_TEXT_MAX / 2];
		uint64_t bad;
		const struct memory *mem = r->source->mems[k];
		if (slot_check(mem, r->source->slots[k], &bad))
			continue;
		memory_name_leaf(mem, bad, name, sizeof(name));
		return err_set(r->err, -EBADMSG, "step %lu, left in memory by a world of %u, is damaged: %s",
			       (unsigned long)r->source->id.step, r->source->world, name);
	}
	return 0;
}

/* What is in a blob of changing size must fit, whatever its room was. The length stands in the first of its pieces. */
static int check_size(const struct reading *r, const struct entry *entry, uint32_t rank)
{
	const struct part_of *saved;
	size_t at = find_name(r, entry->name);
	int rc = 0;
	while (!rc && (saved = next_saved(r, entry, &at))) {
		const struct memory *mem = r->source->mems[saved->rank];
		const struct entry *has = entry_of(mem, saved->piece);
		uint64_t start, count;
		sized_range(has, &piece_of(mem, saved->piece)->region, &start, &count);
		if (!start)
			rc = sized_check(entry, rank, data_of(r, saved), has->shape.dim[0], r->err);
	}
	return rc;
}

/* When their digests are known to match. */
static int check_sizes(const struct reading *r)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < r->nwanted; i++) {
		const struct memory *mem = r->target->mems[r->wanted[i].rank];
		const struct entry *entry = entry_of(mem, r->wanted[i].piece);
		if (entry->sized)
			rc = check_size(r, entry, mem->table->reg.rank);
	}
	return rc;
}

/* ---- the copy -------------------------------------------------------------------------------------------------- */

static void copy_from(const struct reading *r, const struct part_of *saved, const struct entry *entry,
		      const struct region *region, uint8_t *dst)
{
	const struct memory *mem = r->source->mems[saved->rank];
	const struct layout_piece *piece = piece_of(mem, saved->piece);
	const uint8_t *src = data_of(r, saved);
	unsigned size = dtype_size(entry->dtype);
	struct overlap o;
	struct region_run run;
	overlap_init(&o, &entry->shape, &piece->region, region);
	while (overlap_next(&o, &run))
		memcpy(dst + run.dst * size, src + run.src * size, run.count * size);
}

/* The same of a blob of changing size, of which each side is a range. */
static void copy_sized(const struct reading *r, const struct part_of *saved, const struct entry *entry,
		       const struct region *region, uint8_t *dst)
{
	const struct memory *mem = r->source->mems[saved->rank];
	uint64_t from, n, to, room;
	sized_range(entry_of(mem, saved->piece), &piece_of(mem, saved->piece)->region, &from, &n);
	sized_range(entry, region, &to, &room);
	uint64_t first = max_u64(from, to), end = min_u64(from + n, to + room);
	if (first < end)
		memcpy(dst + (first - to), data_of(r, saved) + (first - from), end - first);
}

static void copy_piece(const struct reading *r, const struct part_of *want)
{
	const struct memory *mem = r->target->mems[want->rank];
	const struct entry *entry = entry_of(mem, want->piece);
	const struct layout_piece *piece = piece_of(mem, want->piece);
	uint32_t slot = r->target->slots[want->rank];
	uint8_t *dst = memory_slot(mem, slot) + piece->slot_at;
	const struct part_of *saved;
	size_t at = find_name(r, entry->name);
	bool absent = is_new(r, entry, mem->table->reg.rank);
	if (absent || entry->sized)
		memset(dst, 0, piece->bytes);
	while (!absent && (saved = next_saved(r, entry, &at)))
		(entry->sized ? copy_sized : copy_from)(r, saved, entry, &piece->region, dst);
	uint64_t leaves = leaf_count(piece->bytes);
	if (!leaves)
		return;
	memory_digest(mem, slot, piece->first_leaf, leaves, memory_leaves(mem, slot) + piece->first_leaf);
	r->target->there(r->target, want->rank, piece->first_leaf, leaves);
}

static void copy_pieces(void *arg)
{
	struct reading *r = arg;
	size_t i;
	while ((i = atomic_fetch_add(&r->next, 1)) < r->nwanted)
		copy_piece(r, &r->wanted[i]);
}

/* Each rank of them may have told it. */
static void tell_began(const struct former_source *source, const struct former_target *target)
{
	uint32_t began = 0;
	for (uint32_t k = 0; k < source->n; k++) {
		uint32_t said = memory_began(source->mems[k], source->slots[k]);
		began = said > began ? said : began;
	}
	for (uint32_t k = 0; k < target->n; k++)
		memory_tell_began(target->mems[k], target->slots[k], began);
}

int former_read(const struct former_source *source, const struct former_target *target, struct err *err)
{
	struct reading r = {.source = source, .target = target, .err = err};
	AUTO_FREE struct part_of *saved = r.saved = list_pieces(source->mems, source->n, &r.nsaved);
	AUTO_FREE struct part_of *wanted = r.wanted = list_pieces(target->mems, target->n, &r.nwanted);
	if (!saved || !wanted)
		return err_set(err, -ENOMEM, "no memory to plan a restore");
	qsort_r(saved, r.nsaved, sizeof(*saved), by_name, (void *)source);
	int rc = check_all(&r);
	if (!rc)
		rc = check_digests(&r);
	if (!rc)
		rc = check_sizes(&r);
	if (rc)
		return rc;
	tell_began(source, target);
	threads_run(threads_default((unsigned)min_u64(r.nwanted, THREADS_MAX)), copy_pieces, &r);
	return 0;
}
