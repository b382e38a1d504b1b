#include "restore/former.h"

#include "arena/room.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/threads.h"
#include "restore/piece_walk.h"
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
	uint32_t *bad;
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
	int order = strcmp(entry_of(source->mems[x->rank], x->piece)->name,
			   entry_of(source->mems[y->rank], y->piece)->name);
	return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
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
static int say_missing(const struct reading *r, const struct entry *entry, uint32_t rank)
{
	struct step_id id = r->source->id;
	return err_set(r->err, -ENODATA,
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

static int say_hole(const struct reading *r, const struct entry *entry, uint32_t rank, uint64_t lacking)
{
	struct step_id id = r->source->id;
	return err_set(
		r->err, -ENODATA,
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

/* Saved pieces of the entry, from `first` to before `end`. NULL: no memory. */
static struct walk_source *list_sources(const struct reading *r, size_t first, size_t end)
{
	struct walk_source *sources = calloc(end > first ? end - first : 1, sizeof(*sources));
	for (size_t i = first; sources && i < end; i++) {
		const struct part_of *saved = &r->saved[i];
		sources[i - first] =
			(struct walk_source){.region = &piece_of(r->source->mems[saved->rank], saved->piece)->region,
					     .part = saved->rank,
					     .piece = saved->piece};
	}
	return sources;
}

/* Of a blob of changing size all that was saved is needed, since its length stands in the first of its pieces. */
static int check_there(const struct reading *r, const struct part_of *want, size_t first, size_t end)
{
	const struct memory *mem = r->target->mems[want->rank];
	const struct entry *entry = entry_of(mem, want->piece), *has;
	has = entry_of(r->source->mems[r->saved[first].rank], r->saved[first].piece);
	struct region whole = region_whole(&has->shape);
	const struct region *region = entry->sized ? &whole : &piece_of(mem, want->piece)->region;
	AUTO_FREE struct walk_source *sources = list_sources(r, first, end);
	if (!sources)
		return err_set(r->err, -ENOMEM, "no memory to plan a restore");
	uint64_t lacking =
		piece_walk(&has->shape, region, region_volume(&has->shape, region), sources, end - first, NULL, NULL);
	return lacking ? say_hole(r, entry, mem->table->reg.rank, lacking) : 0;
}

static bool fits(const struct entry *entry, const struct entry *has, const struct entry *first)
{
	return has->dtype == entry->dtype && has->sized == entry->sized &&
	       shape_equal(&has->shape, entry->sized ? &first->shape : &entry->shape);
}

static int check_wanted(const struct reading *r, const struct part_of *want)
{
	const struct memory *mem = r->target->mems[want->rank];
	const struct entry *entry = entry_of(mem, want->piece), *head = NULL;
	const struct part_of *saved;
	uint32_t rank = mem->table->reg.rank;
	size_t at = find_name(r, entry->name), first = at;
	if (!region_volume(&entry->shape, &piece_of(mem, want->piece)->region))
		return 0;
	while ((saved = next_saved(r, entry, &at))) {
		const struct entry *has = entry_of(r->source->mems[saved->rank], saved->piece);
		head = head ? head : has;
		if (!fits(entry, has, head))
			return refuse_type(r, entry, rank, has);
	}
	if (is_new(r, entry, rank))
		return 0;
	return at == first ? say_missing(r, entry, rank) : check_there(r, want, first, at);
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
		if (r->bad)
			*r->bad = k;
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

/* Where a wanted piece stands. */
struct copy_to {
	const struct reading *reading;
	uint8_t *dst;
	unsigned size; /* of an element */
};

static void copy_run(void *arg, const struct walk_source *source, const struct region_run *run)
{
	const struct copy_to *to = arg;
	const struct part_of saved = {source->part, source->piece};
	memcpy(to->dst + run->dst * to->size, data_of(to->reading, &saved) + run->src * to->size,
	       run->count * to->size);
}

/* What several have is the same in all of them. */
static void copy_from(const struct reading *r, const struct part_of *saved, const struct entry *entry,
		      const struct region *region, uint8_t *dst)
{
	struct copy_to to = {r, dst, dtype_size(entry->dtype)};
	const struct layout_piece *piece = piece_of(r->source->mems[saved->rank], saved->piece);
	struct walk_source source = {.part = saved->rank, .piece = saved->piece};
	struct region_run run;
	overlap_init(&source.overlap, &entry->shape, &piece->region, region);
	while (overlap_next(&source.overlap, &run))
		copy_run(&to, &source, &run);
}

/* All of it is there (check_there). */
static void copy_all(const struct reading *r, const struct entry *entry, const struct region *region, uint8_t *dst)
{
	struct copy_to to = {r, dst, dtype_size(entry->dtype)};
	size_t first = find_name(r, entry->name), end = first;
	while (next_saved(r, entry, &end))
		;
	AUTO_FREE struct walk_source *sources = list_sources(r, first, end);
	if (sources)
		piece_walk(&entry->shape, region, region_volume(&entry->shape, region), sources, end - first, copy_run,
			   &to);
	for (size_t i = first; !sources && i < end; i++)
		copy_from(r, &r->saved[i], entry, region, dst);
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
	if (!absent && !entry->sized)
		copy_all(r, entry, &piece->region, dst);
	while (!absent && entry->sized && (saved = next_saved(r, entry, &at)))
		copy_sized(r, saved, entry, &piece->region, dst);
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

static int list_all(struct reading *r)
{
	r->saved = list_pieces(r->source->mems, r->source->n, &r->nsaved);
	r->wanted = list_pieces(r->target->mems, r->target->n, &r->nwanted);
	if (!r->saved || !r->wanted)
		return err_set(r->err, -ENOMEM, "no memory to plan a restore");
	qsort_r(r->saved, r->nsaved, sizeof(*r->saved), by_name, (void *)r->source);
	return check_all(r);
}

static void free_lists(struct reading *r)
{
	free(r->saved);
	free(r->wanted);
}

int former_covers(const struct former_source *source, const struct former_target *target, struct err *err)
{
	struct reading r = {.source = source, .target = target, .err = err};
	int rc = list_all(&r);
	free_lists(&r);
	return rc;
}

int former_read(const struct former_source *source, const struct former_target *target, uint32_t *bad, struct err *err)
{
	struct reading r = {.source = source, .target = target, .err = err, .bad = bad};
	int rc = list_all(&r);
	if (rc == -ENODATA)
		rc = -EINVAL;
	if (!rc)
		rc = check_digests(&r);
	if (!rc)
		rc = check_sizes(&r);
	if (!rc) {
		tell_began(source, target);
		threads_run(threads_default((unsigned)min_u64(r.nwanted, THREADS_MAX)), copy_pieces, &r);
	}
	free_lists(&r);
	return rc;
}
