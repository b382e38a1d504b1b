#include "client/session/register.h"
#include "base/args.h"
#include "base/cleanup.h"
#include "base/quoted.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static int region_of(const ckpt_piece *p, const struct shape *shape, struct region *out, struct err *err)
{
	bool box = p->offset || p->extent, flat = p->start || p->count;
	if (box && flat)
		return err_set(err, -EINVAL, "it has a box (offset, extent) and a flat range (start, count): give one");
	if (box && (!p->offset || !p->extent) && shape->ndim)
		return err_set(err, -EINVAL, "a box needs both offset and extent");
	if (flat && !p->count)
		return err_set(err, -EINVAL, "a flat range of no elements: leave the piece out");
	if (flat)
		*out = region_flat(p->start, p->count);
	else
		*out = region_whole(shape);
	for (uint32_t d = 0; box && d < shape->ndim; d++) {
		out->offset[d] = p->offset[d];
		out->extent[d] = p->extent[d];
	}
	return region_check(shape, out, err);
}

static uint64_t step_bytes(const int64_t *stride, uint32_t dim)
{
	return stride[dim] < 0 ? -(uint64_t)stride[dim] : (uint64_t)stride[dim];
}

/* The dimensions with more than one element, those with the smallest steps first. Returns how many. */
static uint32_t by_step(const struct region *r, uint32_t ndim, const int64_t *stride, uint32_t dims[NDIM_MAX])
{
	uint32_t n = 0;
	for (uint32_t d = 0; d < ndim; d++) {
		if (r->extent[d] < 2)
			continue;
		uint32_t at = n++;
		for (; at && step_bytes(stride, dims[at - 1]) > step_bytes(stride, d); at--)
			dims[at] = dims[at - 1];
		dims[at] = d;
	}
	return n;
}

/* Each step goes beyond all that lies within: so no two elements share a byte. Boxes whose elements interleave without touching are
 * refused with them: nobody lays out a tensor so, and telling them apart takes more than a look. */
static int check_strides(const struct region *r, uint32_t ndim, unsigned element, const int64_t *stride,
			 struct err *err)
{
	uint32_t dims[NDIM_MAX], n = by_step(r, ndim, stride, dims);
	uint64_t within = element, reach;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t d = dims[i];
		if (step_bytes(stride, d) < within)
			return err_set(err, -EINVAL,
				       "stride %" PRId64 " in dimension %u: what lies within takes %" PRIu64
				       " bytes, so that elements would share memory",
				       stride[d], d, within);
		if (__builtin_mul_overflow(step_bytes(stride, d), r->extent[d] - 1, &reach) ||
		    __builtin_add_overflow(within, reach, &within) || within > INT64_MAX)
			return err_set(err, -EINVAL,
				       "stride %" PRId64 " in dimension %u: %" PRIu64
				       " elements that far apart are more than memory can be",
				       stride[d], d, r->extent[d]);
	}
	return 0;
}

static int place_of(const ckpt_piece *p, const struct shape *shape, unsigned element, const struct region *r,
		    struct place *out, struct err *err)
{
	*out = (struct place){.data = p->data};
	if (r->kind == REGION_FLAT)
		return p->stride ? err_set(err, -EINVAL, "a flat range stands in packed memory: it has no stride") : 0;
	place_pack(r, shape->ndim, element, out->stride);
	if (!p->stride || !region_volume(shape, r))
		return 0;
	for (uint32_t d = 0; d < shape->ndim; d++)
		if (r->extent[d] > 1)
			out->stride[d] = p->stride[d];
	return check_strides(r, shape->ndim, element, p->stride, err);
}

/* Empty pieces (uneven shards) need no memory. */
static int add_piece(struct entry *e, struct held *held, const ckpt_piece *p, struct err *err)
{
	unsigned element = dtype_size(e->dtype);
	struct region *r = &e->pieces[e->npieces];
	int rc = region_of(p, &e->shape, r, err);
	if (rc)
		return rc;
	if (!p->data && region_volume(&e->shape, r))
		return err_set(err, -EINVAL, "its data is NULL");
	rc = place_of(p, &e->shape, element, r, &held->places[e->npieces], err);
	if (!rc)
		e->npieces++;
	return rc;
}

int entry_add_pieces(struct entry *e, struct held *held, const ckpt_piece *pieces, uint32_t n, struct err *err)
{
	e->pieces = calloc((size_t)n + 1, sizeof(*e->pieces));
	held->places = calloc((size_t)n + 1, sizeof(*held->places));
	if (!e->pieces || !held->places)
		return err_set(err, -ENOMEM, "no memory for %u pieces", n);
	for (uint32_t i = 0; i < n; i++) {
		int rc = add_piece(e, held, &pieces[i], err);
		if (rc)
			return err_prefix(err, rc, "piece %u", i);
	}
	return 0;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

int register_check_device(const ckpt *s, int device, struct err *err)
{
	if (device < CKPT_HOST)
		return err_set(err, -EINVAL, "device is %d: CKPT_HOST or an ordinal", device);
	if (device != CKPT_HOST && !s->layers.cuda)
		return err_set(err, -ENODEV, "device %d: this build of the library has no CUDA", device);
	return 0;
}

static int check_tensor(const ckpt *s, const ckpt_tensor *t, struct err *err)
{
	if (!dtype_size((enum dtype)t->dtype))
		return err_set(err, -EINVAL, "dtype %d is unknown", (int)t->dtype);
	if (t->ndim < 0 || t->ndim > CKPT_NDIM_MAX)
		return err_set(err, -EINVAL, "ndim is %d, not 0 to %d", t->ndim, CKPT_NDIM_MAX);
	if (t->ndim && !t->shape)
		return err_set(err, -EINVAL, "ndim is %d, and the shape is NULL", t->ndim);
	if (t->npieces < 0 || t->npieces > REGISTRATION_PIECES_MAX)
		return err_set(err, -EINVAL, "npieces is %d, not 0 to %d", t->npieces, REGISTRATION_PIECES_MAX);
	if (t->npieces && !t->pieces)
		return err_set(err, -EINVAL, "npieces is %d, and pieces is NULL", t->npieces);
	if (!t->ndim && t->npieces > 1)
		return err_set(err, -EINVAL, "npieces is %d: a scalar has one element", t->npieces);
	int rc = register_check_device(s, t->device, err);
	if (rc)
		return rc;
	if (t->replica && (rc = name_check("replica group", t->replica, NAME_GROUP_MAX, err)))
		return rc;
	return t->group ? name_check_group(t->group, err) : 0;
}

static int fill_tensor(const ckpt_tensor *t, struct entry *e, struct held *held, struct err *err)
{
	uint64_t volume;
	char text[128];
	*e = (struct entry){.kind = ENTRY_TENSOR, .dtype = (enum dtype)t->dtype, .shape = {.ndim = (uint32_t)t->ndim}};
	*held = (struct held){.device = t->device};
	for (int d = 0; d < t->ndim; d++)
		e->shape.dim[d] = t->shape[d];
	int rc = shape_volume(&e->shape, &volume);
	if (rc)
		return err_set(err, rc, "shape %s is too large", shape_text(&e->shape, text, sizeof(text)));
	snprintf(e->group, sizeof(e->group), "%s", t->group ? t->group : "params");
	snprintf(e->replica, sizeof(e->replica), "%s", t->replica ? t->replica : "");
	e->name = strdup(t->name);
	if (!e->name)
		return err_set(err, -ENOMEM, "no memory for a name");
	return entry_add_pieces(e, held, t->pieces, (uint32_t)t->npieces, err);
}

void entry_drop(struct entry *e, struct held *held)
{
	free(e->name);
	free(e->pieces);
	free(held->places);
	free(held->own);
}

int register_check_open(const ckpt *s, struct err *err)
{
	int rc = session_check(s, err);
	if (rc)
		return rc;
	return table_sealed(&s->table) ? err_set(err, -EBUSY, "registration ended with ckpt_join") : 0;
}

int register_entry(ckpt *s, struct entry *e, struct held *held, struct err *err)
{
	LOCK_SCOPE(&s->save);
	return table_add(&s->table, e, held, err);
}

static int register_tensor(ckpt *s, const ckpt_tensor *arg, struct err *err)
{
	ckpt_tensor t;
	struct entry e = {0};
	struct held held = {0};
	int rc = register_check_open(s, err);
	if (!rc)
		rc = args_take(&t, sizeof(t), sizeof(t), arg, "ckpt_tensor", err);
	if (!rc && !t.name)
		rc = err_set(err, -EINVAL, "ckpt_tensor.name is NULL");
	if (!rc)
		rc = name_check_tensor(t.name, err);
	if (rc)
		return rc;
	rc = check_tensor(s, &t, err);
	if (!rc)
		rc = fill_tensor(&t, &e, &held, err);
	if (!rc)
		rc = register_entry(s, &e, &held, err);
	if (rc) {
		entry_drop(&e, &held);
		return err_prefix(err, rc, "tensor %s", quoted(t.name).text);
	}
	return 0;
}

int ckpt_register_tensor(ckpt *s, const ckpt_tensor *t)
{
	struct err err = {0};
	int rc = register_tensor(s, t, &err);
	return rc ? session_fail(s, rc, &err) : 0;
}
