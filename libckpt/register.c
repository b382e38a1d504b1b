#include "base/cleanup.h"
#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BLOB_GROUP "blobs"

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

static int place_of(const ckpt_piece *p, const struct shape *shape, unsigned element, const struct region *r,
		    struct place *out, struct err *err)
{
	*out = (struct place){.data = p->data};
	if (r->kind == REGION_FLAT)
		return p->stride ? err_set(err, -EINVAL, "a flat range stands in packed memory: it has no stride") : 0;
	place_pack(r, shape->ndim, element, out->stride);
	for (uint32_t d = 0; p->stride && d < shape->ndim; d++) {
		if (!p->stride[d] && r->extent[d] > 1)
			return err_set(err, -EINVAL,
				       "stride 0 in dimension %u: %" PRIu64 " elements would share memory", d,
				       r->extent[d]);
		out->stride[d] = p->stride[d];
	}
	return 0;
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

static int add_pieces(struct entry *e, struct held *held, const ckpt_piece *pieces, uint32_t n, struct err *err)
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

static int check_device(const ckpt *s, int device, struct err *err)
{
	if (device < CKPT_HOST)
		return err_set(err, -EINVAL, "device is %d: CKPT_HOST or an ordinal", device);
	if (device != CKPT_HOST && !s->layers.cuda)
		return err_set(err, -ENODEV, "device %d: this build of the library has no CUDA", device);
	return 0;
}

static int check_tensor(const ckpt *s, const ckpt_tensor *t, struct err *err)
{
	if (!t->name)
		return err_set(err, -EINVAL, "ckpt_tensor.name is NULL");
	int rc = name_check_tensor(t->name, err);
	if (rc)
		return rc;
	if (!dtype_size((enum dtype)t->dtype))
		return err_set(err, -EINVAL, "dtype %d is unknown", (int)t->dtype);
	if (t->ndim < 0 || t->ndim > CKPT_NDIM_MAX || (t->ndim && !t->shape))
		return err_set(err, -EINVAL, "ndim is %d (0 to %d, with a shape)", t->ndim, CKPT_NDIM_MAX);
	if (t->npieces < 0 || t->npieces > REGISTRATION_PIECES_MAX || (t->npieces && !t->pieces))
		return err_set(err, -EINVAL, "npieces is %d", t->npieces);
	if ((rc = check_device(s, t->device, err)))
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
	return add_pieces(e, held, t->pieces, (uint32_t)t->npieces, err);
}

static void drop_entry(struct entry *e, struct held *held)
{
	free(e->name);
	free(e->pieces);
	free(held->places);
}

static int check_open(const ckpt *s, struct err *err)
{
	int rc = session_check(s, err);
	if (rc)
		return rc;
	return table_sealed(&s->table) ? err_set(err, -EBUSY, "registration ended with ckpt_join") : 0;
}

static int register_tensor(ckpt *s, const ckpt_tensor *arg, struct err *err)
{
	ckpt_tensor t;
	struct entry e = {0};
	struct held held = {0};
	int rc = check_open(s, err);
	if (!rc)
		rc = args_take(&t, sizeof(t), sizeof(t), arg, "ckpt_tensor", err);
	if (rc)
		return rc;
	rc = check_tensor(s, &t, err);
	if (!rc)
		rc = fill_tensor(&t, &e, &held, err);
	if (!rc)
		rc = table_add(&s->table, &e, &held, err);
	if (rc) {
		drop_entry(&e, &held);
		return err_prefix(err, rc, "tensor %.200s", t.name ? t.name : "?");
	}
	return 0;
}

int ckpt_register_tensor(ckpt *s, const ckpt_tensor *t)
{
	struct err err = {0};
	int rc = register_tensor(s, t, &err);
	return rc ? session_fail(s, rc, &err) : 0;
}

/* ---- blobs ------------------------------------------------------------------------------------------------------- */

struct blob {
	void *data;
	size_t bytes;
	int device;
};

static int fill_blob(const ckpt *s, const char *name, ckpt_scope scope, const struct blob *b, struct entry *e,
		     struct held *held, struct err *err)
{
	*e = (struct entry){.kind = scope == CKPT_SCOPE_JOB ? ENTRY_JOB_BLOB : ENTRY_RANK_BLOB,
			    .dtype = DTYPE_U8,
			    .shape = {.ndim = 1, .dim = {b->bytes}},
			    .group = BLOB_GROUP};
	*held = (struct held){.device = b->device};
	int n = scope == CKPT_SCOPE_JOB ? asprintf(&e->name, "%s", name)
					: asprintf(&e->name, "%s@%05u", name, s->settings.rank);
	if (n < 0) {
		e->name = NULL;
		return err_set(err, -ENOMEM, "no memory for a name");
	}
	int rc = name_check_tensor(e->name, err);
	return rc ? rc : add_pieces(e, held, &(ckpt_piece){.data = b->data}, 1, err);
}

static int register_blob(ckpt *s, const char *name, ckpt_scope scope, const struct blob *b, struct err *err)
{
	struct entry e = {0};
	struct held held = {0};
	int rc = check_open(s, err);
	if (rc)
		return rc;
	if (!name || !b->data || !b->bytes || b->bytes > INT64_MAX / 16)
		return err_set(err, -EINVAL, "blob %.200s: name, data or bytes is missing", name ? name : "?");
	if (scope != CKPT_SCOPE_JOB && scope != CKPT_SCOPE_RANK)
		return err_set(err, -EINVAL, "blob %.200s: scope %d is unknown", name, (int)scope);
	rc = check_device(s, b->device, err);
	if (rc)
		return err_prefix(err, rc, "blob %.200s", name);
	rc = fill_blob(s, name, scope, b, &e, &held, err);
	if (!rc)
		rc = table_add(&s->table, &e, &held, err);
	if (rc) {
		drop_entry(&e, &held);
		return err_prefix(err, rc, "blob %.200s", name);
	}
	return 0;
}

int ckpt_register_device_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes, int device)
{
	struct err err = {0};
	int rc = register_blob(s, name, scope, &(struct blob){data, bytes, device}, &err);
	return rc ? session_fail(s, rc, &err) : 0;
}

int ckpt_register_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes)
{
	return ckpt_register_device_blob(s, name, scope, data, bytes, CKPT_HOST);
}
