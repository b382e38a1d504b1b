/* What a node writes of what it holds as others do (shares.h).
 *
 * The bytes of a share have one order on all nodes that have it: that of its registered pieces (share_units.h), whichever rank captures them. A node
 * writes those between two places of this order; of a mixed share what the runs say of each registered piece, in the same order. */
#include "format/files/share_units.h"

#include "base/cleanup.h"
#include "format/tensor/digest.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a captured piece that are written. */
struct taken {
	bool any; /* also of a piece of no bytes */
	uint64_t from, to;
};

/* A captured piece of a share. */
struct captured {
	uint32_t share;
	const struct entry *entry;
	const struct region *unit; /* the registered piece that it is of */
	uint64_t unit_first, first, bytes;
	struct taken *taken;
};

struct taking {
	const struct layout *const *layouts;
	const struct registration *const *regs;
	uint32_t n;
	const struct share_parts *parts;
	struct share_numbers numbers;
	struct taken *taken; /* of all pieces of all ranks, in order */
	struct captured *captured;
	size_t ncaptured;
	bool by_pieces[SHARES_MAX]; /* what is taken of each stands in `taken` */
	struct share_run run;       /* of what is left of the runs, the first; units 0: it is yet to be read */
	uint32_t nruns;             /* that were read */
};

static void collect_file(struct taking *t, uint32_t rank, const struct layout_file *f, struct taken *taken)
{
	uint32_t share = share_number(&t->numbers, f->share);
	for (uint32_t i = 0; i < f->npieces; i++) {
		const struct layout_piece *p = &t->layouts[rank]->pieces[f->first_piece + i];
		const struct entry *e = &t->regs[rank]->entries[p->entry];
		const struct region *unit = &e->pieces[p->source];
		t->captured[t->ncaptured++] = (struct captured){.share = share,
								.entry = e,
								.unit = unit,
								.unit_first = region_first(&e->shape, unit),
								.first = region_first(&e->shape, &p->region),
								.bytes = p->bytes,
								.taken = taken + f->first_piece + i};
	}
}

static void collect(struct taking *t)
{
	struct taken *taken = t->taken;
	for (uint32_t r = 0; r < t->n; r++) {
		const struct layout *l = t->layouts[r];
		for (uint32_t f = 0; f < l->nfiles; f++)
			if (l->files[f].share)
				collect_file(t, r, &l->files[f], taken);
		taken += l->npieces;
	}
}

static int by_order(const void *a, const void *b)
{
	const struct captured *x = a, *y = b;
	if (x->share != y->share)
		return x->share < y->share ? -1 : 1;
	int order = share_order(x->entry, x->unit_first, y->entry, y->unit_first);
	if (order)
		return order;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* ---- one share ---------------------------------------------------------------------------------------------------- */

static uint64_t unit_bytes(const struct captured *c)
{
	return region_volume(&c->entry->shape, c->unit) * dtype_size(c->entry->dtype);
}

static bool same_unit(const struct captured *a, const struct captured *b)
{
	return a->unit_first == b->unit_first && !strcmp(a->entry->name, b->entry->name);
}

/* Bytes of the share; 0: they have no order that all nodes know. */
static uint64_t measure(const struct captured *c, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		if (!region_contiguous(&c[i].entry->shape, c[i].unit, NULL, NULL))
			return 0;
		sum += c[i].bytes;
	}
	return sum;
}

/* The boundary nearest to `at`: a leaf of the registered piece that it falls in. */
static uint64_t boundary(const struct captured *c, size_t n, uint64_t at)
{
	uint64_t begin = 0;
	for (size_t i = 0; i < n; i++) {
		if (i && same_unit(&c[i - 1], &c[i]))
			continue;
		uint64_t bytes = unit_bytes(&c[i]);
		if (at < begin + bytes)
			return begin + min_u64((at - begin + LEAF_SIZE / 2) / LEAF_SIZE * LEAF_SIZE, bytes);
		begin += bytes;
	}
	return begin;
}

static uint64_t boundary_of(const struct captured *c, size_t n, uint64_t bytes, uint32_t part, uint32_t parts)
{
	return boundary(c, n, (uint64_t)((unsigned __int128)bytes * part / parts));
}

/* What is without bytes goes with what follows it, at the end with the last part. */
static void take_piece(const struct captured *c, uint64_t at, uint64_t from, uint64_t to, uint64_t end)
{
	uint64_t first = at > from ? at : from, last = min_u64(at + c->bytes, to);
	bool any = c->bytes ? first < last : at >= from && (at < to || (at == end && to == end));
	if (any)
		*c->taken = (struct taken){true, first - at, last - at};
}

static void take_share(const struct captured *c, size_t n, uint64_t bytes, const struct share_part *part)
{
	uint64_t from = part->parts ? boundary_of(c, n, bytes, part->part, part->parts) : 0;
	uint64_t to = part->parts ? boundary_of(c, n, bytes, part->part + 1, part->parts) : 0;
	uint64_t begin = 0;
	for (size_t i = 0; part->parts && i < n; i++) {
		if (i && !same_unit(&c[i - 1], &c[i]))
			begin += unit_bytes(&c[i - 1]);
		uint64_t within = (c[i].first - c[i].unit_first) * dtype_size(c[i].entry->dtype);
		take_piece(&c[i], begin + (c[i].bytes ? within : 0), from, to, bytes);
	}
}

/* ---- a mixed share ------------------------------------------------------------------------------------------------- */

static int next_unit(struct taking *t, struct share_run *run)
{
	if (!t->run.units && t->nruns < t->parts->nruns)
		t->run = share_run_get(t->parts->runs, t->nruns++);
	if (!t->run.units)
		return -EINVAL;
	t->run.units--;
	*run = t->run;
	return 0;
}

/* What is not contiguous is taken whole, or not at all. */
static int take_of_unit(const struct captured *c, const struct share_run *run, uint64_t bytes)
{
	bool none = run->from >= run->to, all = !run->from && run->to >= bytes;
	uint64_t within = (c->first - c->unit_first) * dtype_size(c->entry->dtype);
	if (all)
		*c->taken = (struct taken){true, 0, c->bytes};
	else if (!none && region_contiguous(&c->entry->shape, c->unit, NULL, NULL) &&
		 (run->from % LEAF_SIZE == 0 && (run->to % LEAF_SIZE == 0 || run->to >= bytes)))
		take_piece(c, within, run->from, run->to, bytes);
	else if (!none)
		return -EINVAL;
	return 0;
}

/* A piece without bytes is in no unit, and is written by each node that has it. */
static int take_mixed(struct taking *t, const struct captured *c, size_t n)
{
	const struct captured *unit = NULL;
	struct share_run run;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		if (!c[i].bytes) {
			*c[i].taken = (struct taken){.any = true};
			continue;
		}
		if (!unit || !same_unit(unit, &c[i]))
			rc = next_unit(t, &run);
		unit = &c[i];
		if (!rc)
			rc = take_of_unit(&c[i], &run, unit_bytes(&c[i]));
	}
	return rc || !t->run.units ? rc : -EINVAL; /* runs end with their share */
}

static bool is_mixed(const struct taking *t, uint32_t share)
{
	return share < t->parts->n && t->parts->of[share].parts == SHARE_MIXED;
}

/* c[0..n) are all of one share. */
static int take_one(struct taking *t, const struct captured *c, size_t n)
{
	uint32_t share = c->share;
	if (is_mixed(t, share)) {
		t->by_pieces[share] = true;
		return take_mixed(t, c, n);
	}
	uint64_t bytes = share_is_single(&t->numbers, share) ? measure(c, n) : 0;
	t->by_pieces[share] = bytes && share < t->parts->n;
	if (t->by_pieces[share])
		take_share(c, n, bytes, &t->parts->of[share]);
	return 0;
}

static int take_shares(struct taking *t)
{
	int rc = 0;
	qsort(t->captured, t->ncaptured, sizeof(*t->captured), by_order);
	for (size_t i = 0, end; !rc && i < t->ncaptured; i = end) {
		for (end = i + 1; end < t->ncaptured && t->captured[end].share == t->captured[i].share;)
			end++;
		rc = take_one(t, t->captured + i, end - i);
	}
	return rc || t->nruns == t->parts->nruns ? rc : -EINVAL;
}

/* ---- the layouts --------------------------------------------------------------------------------------------------- */

static struct layout_piece part_of(const struct entry *e, const struct layout_piece *p, const struct taken *taken)
{
	struct layout_piece part = *p;
	uint64_t start;
	if (taken->from == 0 && taken->to == p->bytes)
		return part;
	unsigned size = dtype_size(e->dtype);
	region_contiguous(&e->shape, &p->region, &start, NULL);
	part.region = region_flat(start + taken->from / size, (taken->to - taken->from) / size);
	part.bytes = taken->to - taken->from;
	part.slot_at += taken->from;
	part.first_leaf += taken->from / LEAF_SIZE;
	return part;
}

static void add_file(const struct layout *whole, const struct registration *reg, const struct layout_file *f,
		     const struct taken *taken, struct layout *out)
{
	struct layout_file *file = &out->files[out->nfiles];
	*file = *f;
	file->first_piece = out->npieces;
	file->npieces = 0;
	file->data_size = 0;
	for (uint32_t i = 0; i < f->npieces; i++) {
		const struct layout_piece *p = &whole->pieces[f->first_piece + i];
		if (taken && !taken[f->first_piece + i].any)
			continue;
		struct layout_piece *part = &out->pieces[out->npieces++];
		*part = taken ? part_of(&reg->entries[p->entry], p, &taken[f->first_piece + i]) : *p;
		part->file = out->nfiles;
		part->at = file->data_size;
		file->slot_at = file->npieces++ ? file->slot_at : part->slot_at;
		file->data_size += part->bytes;
		out->data_bytes += part->bytes;
	}
	out->nfiles += file->npieces > 0;
}

/* seen: files of each share so far. */
static bool is_taken_whole(struct taking *t, uint32_t *seen, const struct layout_file *f)
{
	uint32_t share = f->share ? share_number(&t->numbers, f->share) : SHARES_MAX;
	if (share >= t->parts->n)
		return true;
	const struct share_part *part = &t->parts->of[share];
	return part->parts && seen[share]++ % part->parts == part->part;
}

static int make_layout(struct taking *t, uint32_t rank, const struct taken *taken, uint32_t *seen, struct layout *out)
{
	const struct layout *whole = t->layouts[rank];
	*out = *whole;
	out->nfiles = out->npieces = 0;
	out->data_bytes = 0;
	out->files = calloc((size_t)whole->nfiles + 1, sizeof(*out->files));
	out->pieces = calloc((size_t)whole->npieces + 1, sizeof(*out->pieces));
	if (!out->files || !out->pieces)
		return -ENOMEM;
	for (uint32_t i = 0; i < whole->nfiles; i++) {
		const struct layout_file *f = &whole->files[i];
		if (f->share && t->by_pieces[share_number(&t->numbers, f->share)])
			add_file(whole, t->regs[rank], f, taken, out);
		else if (is_taken_whole(t, seen, f))
			add_file(whole, t->regs[rank], f, NULL, out);
	}
	return 0;
}

static int make_layouts(struct taking *t, struct layout *out)
{
	const struct taken *taken = t->taken;
	uint32_t seen[SHARES_MAX] = {0};
	int rc = 0;
	for (uint32_t r = 0; !rc && r < t->n; r++) {
		rc = make_layout(t, r, taken, seen, &out[r]);
		taken += t->layouts[r]->npieces;
	}
	return rc;
}

int shares_take(const struct layout *const *layouts, const struct registration *const *regs, uint32_t n,
		const struct share_parts *parts, struct layout *out)
{
	struct taking t = {.layouts = layouts, .regs = regs, .n = n, .parts = parts};
	size_t most = 1;
	for (uint32_t r = 0; r < n; r++) {
		out[r] = (struct layout){0};
		most += layouts[r]->npieces;
	}
	AUTO_FREE struct taken *taken = calloc(most, sizeof(*taken));
	AUTO_FREE struct captured *captured = calloc(most, sizeof(*captured));
	if (!taken || !captured)
		return -ENOMEM;
	t.taken = taken;
	t.captured = captured;
	collect(&t);
	int rc = take_shares(&t);
	if (!rc)
		rc = make_layouts(&t, out);
	for (uint32_t r = 0; rc && r < n; r++)
		layout_free(&out[r]);
	return rc;
}
