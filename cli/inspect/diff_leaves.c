/* Pieces of the same region hold the same bytes at the same place, so their leaf digests can be compared: equal ones are equal
 * data, which is not read. Of the others neighbouring leaves are read together, each checked against its digest. */
#include "inspect/diff.h"
#include "inspect/diff_source.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <stdlib.h>

/* From an element of a run to its index in the tensor. */
struct run_place {
	const struct shape *shape;
	const struct region *region;
	uint64_t from; /* elements of the piece before the run */
};

static uint64_t place_of(const void *arg, uint64_t at)
{
	const struct run_place *r = arg;
	uint64_t k = r->from + at, index = 0, stride = 1;
	if (r->region->kind == REGION_FLAT)
		return r->region->start + k;
	for (uint32_t d = r->shape->ndim; d-- > 0;) {
		index += (r->region->offset[d] + k % r->region->extent[d]) * stride;
		k /= r->region->extent[d];
		stride *= r->shape->dim[d];
	}
	return index;
}

struct leaf_walk {
	struct diff *d;
	struct diff_side a, b;
};

static int compare_run(struct leaf_walk *w, const struct diff_pair *pair, const struct diff_source *a,
		       const struct diff_source *b, uint64_t first, uint64_t n, struct err *err)
{
	struct diff_tensor *t = &w->d->tensors[pair->a.tensor];
	uint64_t from = first * LEAF_SIZE, bytes = min_u64(pair->a.piece->bytes - from, n * LEAF_SIZE);
	int rc = diff_source_read(&w->a, a, &pair->a, first, bytes, t->a->name, err);
	if (!rc)
		rc = diff_source_read(&w->b, b, &pair->b, first, bytes, t->a->name, err);
	if (rc < 0)
		return rc;
	unsigned size = dtype_size(t->a->dtype);
	struct difference part;
	struct run_place place = {&t->a->shape, &pair->a.piece->region, from / size};
	difference_of(t->a->dtype, w->a.buffer, w->b.buffer, bytes / size, &part);
	difference_add(&t->difference, &part, place_of, &place);
	if (part.elements)
		t->state = DIFF_CHANGED;
	w->d->read += 2 * bytes;
	return 0;
}

static int compare_pair(struct leaf_walk *w, const struct diff_pair *pair, struct err *err)
{
	struct diff_source *a, *b;
	uint64_t n = leaf_count(pair->a.piece->bytes);
	int rc = diff_source_open(&w->a, pair->a.file, &a, err);
	if (!rc)
		rc = diff_source_open(&w->b, pair->b.file, &b, err);
	if (rc < 0)
		return rc;
	const uint64_t *la = diff_source_leaves(a, &pair->a), *lb = diff_source_leaves(b, &pair->b);
	for (uint64_t i = 0, end; i < n && !rc; i = end) {
		for (end = i; end < n && end - i < DIFF_RUN_LEAVES && la[end] != lb[end];)
			end++;
		if (end > i)
			rc = compare_run(w, pair, a, b, i, end - i, err);
		else
			end++;
		if (!rc && end % DIFF_RUN_LEAVES == 0)
			rc = diff_advance(w->d, 0, err);
	}
	return rc ? rc : diff_advance(w->d, pair->a.piece->bytes, err);
}

int diff_leaves(struct diff *d, struct err *err)
{
	AUTO_FREE struct leaf_walk *w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->d = d;
	int rc = diff_side_open(&w->a, d->a, err);
	if (!rc)
		rc = diff_side_open(&w->b, d->b, err);
	for (size_t i = 0; i < d->npairs && !rc; i++)
		rc = compare_pair(w, &d->pairs[i], err);
	diff_side_close(&w->a);
	diff_side_close(&w->b);
	return rc;
}
