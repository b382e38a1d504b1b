/* Pieces of the same region hold the same bytes at the same place, so their leaf digests can be compared: equal ones are equal
 * data, which is not read. Of the others neighbouring leaves are read together, each checked against its digest. */
#include "diff.h"

#include "base/cleanup.h"
#include "format/sidecar.h"

#include <inttypes.h>
#include <string.h>

enum { CACHE = 16, RUN_LEAVES = 64 };

/* An open file with its sidecar; those used last are kept. */
struct source {
	const struct manifest_file *file; /* NULL: unused */
	int handle;
	struct sidecar sidecar;
	uint64_t used;
};

struct side {
	struct checkpoint *ck;
	struct source sources[CACHE];
	uint64_t clock;
	uint8_t *buffer; /* RUN_LEAVES leaves */
};

static void source_close(struct side *side, struct source *s)
{
	if (!s->file)
		return;
	sidecar_free(&s->sidecar);
	disk_close_file(side->ck->repo->disk, s->handle);
	*s = (struct source){0};
}

static int source_open(struct side *side, const struct manifest_file *file, struct source **out, struct err *err)
{
	struct source *s = side->sources;
	for (int i = 0; i < CACHE; i++) {
		if (side->sources[i].file == file) {
			*out = &side->sources[i];
			(*out)->used = ++side->clock;
			return 0;
		}
		if (side->sources[i].used < s->used)
			s = &side->sources[i];
	}
	source_close(side, s);
	int rc = checkpoint_sidecar(side->ck, file, &s->sidecar, err);
	if (rc < 0)
		return rc;
	s->handle = disk_open_at(side->ck->repo->disk, side->ck->dir, file->name, DISK_RDONLY);
	if (s->handle < 0) {
		rc = err_set(err, s->handle, "cannot open %s: %s", file->name, err_name(s->handle));
		sidecar_free(&s->sidecar);
		return rc;
	}
	s->file = file;
	s->used = ++side->clock;
	*out = s;
	return 0;
}

static const uint64_t *leaves_of(const struct source *s, const struct diff_place *place)
{
	return s->sidecar.leaves + s->sidecar.pieces[place->index].first_leaf;
}

/* Reads bytes of a piece, from a leaf's start on, and checks them. */
static int read_leaves(struct side *side, const struct source *s, const struct diff_place *place, uint64_t first,
		       uint64_t bytes, const char *tensor, struct err *err)
{
	uint64_t at = place->file->data_at + place->piece->at + first * LEAF_SIZE, digests[RUN_LEAVES];
	struct disk_op op = {.kind = DISK_READ, .file = s->handle, .buf = side->buffer, .offset = at, .len = bytes};
	int rc = disk_do(side->ck->repo->disk, &op);
	if (rc < 0)
		return err_set(err, rc, "reading %s at byte %" PRIu64 ": %s", place->file->name, at, err_name(rc));
	if ((uint64_t)op.result < bytes)
		return err_set(err, -EBADMSG, "%s was cut short at byte %" PRIu64, place->file->name,
			       at + (uint64_t)op.result);
	digest_leaves(side->buffer, bytes, digests);
	for (uint64_t i = 0; i < leaf_count(bytes); i++) {
		uint64_t from = at + i * LEAF_SIZE;
		if (digests[i] != leaves_of(s, place)[first + i])
			return err_set(err, -EBADMSG,
				       "%s of step %" PRIu64 ", tensor %s, bytes %" PRIu64 " to %" PRIu64
				       ": damaged: they do not match their digest",
				       place->file->name, side->ck->ref.id.step, tensor, from,
				       min_u64(from + LEAF_SIZE, at + bytes));
	}
	return 0;
}

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
	struct side a, b;
};

static int compare_run(struct leaf_walk *w, const struct diff_pair *pair, const struct source *a,
		       const struct source *b, uint64_t first, uint64_t n, struct err *err)
{
	struct diff_tensor *t = &w->d->tensors[pair->a.tensor];
	uint64_t from = first * LEAF_SIZE, bytes = min_u64(pair->a.piece->bytes - from, n * LEAF_SIZE);
	int rc = read_leaves(&w->a, a, &pair->a, first, bytes, t->a->name, err);
	if (!rc)
		rc = read_leaves(&w->b, b, &pair->b, first, bytes, t->a->name, err);
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
	struct source *a, *b;
	uint64_t n = leaf_count(pair->a.piece->bytes);
	int rc = source_open(&w->a, pair->a.file, &a, err);
	if (!rc)
		rc = source_open(&w->b, pair->b.file, &b, err);
	if (rc < 0)
		return rc;
	const uint64_t *la = leaves_of(a, &pair->a), *lb = leaves_of(b, &pair->b);
	for (uint64_t i = 0, end; i < n && !rc; i = end) {
		for (end = i; end < n && end - i < RUN_LEAVES && la[end] != lb[end];)
			end++;
		if (end > i)
			rc = compare_run(w, pair, a, b, i, end - i, err);
		else
			end++;
		if (!rc && end % RUN_LEAVES == 0)
			rc = diff_advance(w->d, 0, err);
	}
	return rc ? rc : diff_advance(w->d, pair->a.piece->bytes, err);
}

static void side_free(struct side *side)
{
	for (int i = 0; i < CACHE; i++)
		source_close(side, &side->sources[i]);
	free(side->buffer);
}

int diff_leaves(struct diff *d, struct err *err)
{
	AUTO_FREE struct leaf_walk *w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	*w = (struct leaf_walk){.d = d, .a = {.ck = d->a}, .b = {.ck = d->b}};
	w->a.buffer = malloc(RUN_LEAVES * LEAF_SIZE);
	w->b.buffer = malloc(RUN_LEAVES * LEAF_SIZE);
	int rc = w->a.buffer && w->b.buffer ? 0 : err_set(err, -ENOMEM, "no memory for two buffers");
	for (size_t i = 0; i < d->npairs && !rc; i++)
		rc = compare_pair(w, &d->pairs[i], err);
	side_free(&w->a);
	side_free(&w->b);
	return rc;
}
