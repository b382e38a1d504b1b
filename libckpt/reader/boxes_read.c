#include "reader/reader.h"

#include "base/args.h"
#include "base/cleanup.h"
#include "base/quoted.h"
#include "format/arena/sized_blob.h"
#include "store/read/boxes.h"

#include <stdlib.h>
#include <string.h>

static int region_of(const ckpt_reader_box *b, const struct shape *shape, struct region *out, struct err *err)
{
	if (shape->ndim && !b->offset != !b->extent)
		return err_set(err, -EINVAL, "a box needs both offset and extent");
	*out = region_whole(shape);
	for (uint32_t d = 0; b->offset && b->extent && d < shape->ndim; d++) {
		out->offset[d] = b->offset[d];
		out->extent[d] = b->extent[d];
	}
	return region_check(shape, out, err);
}

/* All of it lies in one half of the address space: no address on the way wraps. */
static int check_strides(const struct box *box, struct err *err)
{
	uint64_t reach = dtype_size(box->tensor->dtype), far;
	for (uint32_t d = 0; d < box->tensor->shape.ndim; d++) {
		uint64_t step = box->stride[d] < 0 ? -(uint64_t)box->stride[d] : (uint64_t)box->stride[d];
		if (__builtin_mul_overflow(step, box->region.extent[d], &far) ||
		    __builtin_add_overflow(reach, far, &reach) || reach > INT64_MAX)
			return err_set(err, -EINVAL, "stride %lld in dimension %u goes beyond what memory can be",
				       (long long)box->stride[d], d);
	}
	return 0;
}

/* Whether the steps are those of packed memory. Dimensions of extent 1 do not count. */
static bool is_packed(const struct box *box)
{
	int64_t step = (int64_t)dtype_size(box->tensor->dtype);
	bool packed = true;
	for (uint32_t d = box->tensor->shape.ndim; d-- > 0;) {
		packed &= box->region.extent[d] <= 1 || box->stride[d] == step;
		step *= (int64_t)box->region.extent[d];
	}
	return packed;
}

static int take_box(const ckpt_reader *r, const ckpt_reader_box *b, struct box *box, struct err *err)
{
	const struct content *c = b->name ? contents_find(&r->contents, b->name) : NULL;
	if (!b->name)
		return err_set(err, -EINVAL, "its name is NULL");
	if (!c)
		return err_set(err, -ENOENT, "the checkpoint has no tensor %s", quoted(b->name).text);
	*box = (struct box){.tensor = c->meta, .data = b->data, .packed = !b->stride};
	int rc = region_of(b, &c->meta->shape, &box->region, err);
	uint64_t volume = rc ? 0 : region_volume(&c->meta->shape, &box->region);
	if (!rc && !b->data && volume)
		rc = err_set(err, -EINVAL, "its data is NULL");
	if (!rc && b->stride && volume) {
		memcpy(box->stride, b->stride, c->meta->shape.ndim * sizeof(*b->stride));
		rc = check_strides(box, err);
		box->packed = !rc && is_packed(box);
	}
	return rc ? err_prefix(err, rc, "tensor %s", quoted(b->name).text) : 0;
}

static int take_boxes(const ckpt_reader *r, const ckpt_reader_box *given, size_t n, struct box *boxes, struct err *err)
{
	const char *at = (const char *)given;
	for (size_t i = 0; i < n; i++, at += given->size) {
		ckpt_reader_box b;
		size_t size;
		memcpy(&size, at, sizeof(size));
		int rc = size == given->size
				 ? args_take(&b, sizeof(b), sizeof(b), at, "ckpt_reader_box", err)
				 : err_set(err, -EINVAL, "its size is %zu, that of the first %zu", size, given->size);
		if (!rc)
			rc = take_box(r, &b, &boxes[i], err);
		if (rc)
			return err_prefix(err, rc, "box %zu", i);
	}
	return 0;
}

/* What was removed while it was read looks like damage. */
static int tell(ckpt_reader *r, struct lane *lane, int rc, struct err *err)
{
	struct err why = *err;
	if ((rc == -EBADMSG || rc == -ENOENT) && checkpoint_gone(&lane->repo, r->ck.ref.job, r->ck.ref.id))
		return err_set(err, -ENOENT, "%s was removed while it was read", r->path);
	*err = why;
	return err_prefix(err, rc, "%s/%s", r->listed.job, r->listed.name);
}

static int read_in_lane(ckpt_reader *r, const struct box *boxes, size_t n, struct err *err)
{
	struct restore_options opts = {.threads = (unsigned)r->opts.threads,
				       .memory = r->opts.memory,
				       .progress = r->opts.progress,
				       .arg = r->opts.progress_arg};
	struct lane *lane;
	int rc = lane_take(r, &lane, err);
	if (rc)
		return rc;
	rc = boxes_read(&lane->ck, boxes, n, &opts, err);
	if (rc && rc != -ECANCELED)
		rc = tell(r, lane, rc, err);
	lane_put(r, lane);
	return rc;
}

int ckpt_reader_read(ckpt_reader *r, const ckpt_reader_box *boxes, size_t n)
{
	struct err err = {0};
	int rc = reader_check(r, &err);
	if (!rc && n && !boxes)
		rc = err_set(&err, -EINVAL, "`boxes` is NULL, and %zu are to be read", n);
	if (!rc && n >= UINT32_MAX)
		rc = err_set(&err, -EINVAL, "%zu boxes are too many", n);
	if (rc)
		return reader_fail(rc, &err);
	AUTO_FREE struct box *taken = calloc(n + 1, sizeof(*taken));
	rc = taken ? take_boxes(r, boxes, n, taken, &err) : err_set(&err, -ENOMEM, "no memory for %zu boxes", n);
	if (!rc && n)
		rc = read_in_lane(r, taken, n, &err);
	return rc ? reader_fail(rc, &err) : 0;
}

/* ---- blobs ------------------------------------------------------------------------------------------------------- */

static int find_blob(const ckpt_reader *r, const char *name, const struct manifest_tensor **out, struct err *err)
{
	const struct content *c = name ? contents_find(&r->contents, name) : NULL;
	if (!name)
		return err_set(err, -EINVAL, "the name is NULL");
	if (!c || c->meta->kind == ENTRY_TENSOR)
		return err_set(err, -ENOENT, "the checkpoint has no blob %s", quoted(name).text);
	*out = c->meta;
	return 0;
}

static int read_blob(struct lane *lane, const struct manifest_tensor *blob, void *data, size_t room, uint64_t *bytes,
		     struct err *err)
{
	struct box box = {.tensor = blob, .region = region_whole(&blob->shape), .data = data, .packed = true};
	int rc = blob->sized ? boxes_blob_length(&lane->ck, blob, bytes, err) : 0;
	if (rc)
		return rc;
	if (blob->sized)
		box.region.offset[0] = SIZED_HEAD;
	else
		*bytes = blob->shape.dim[0];
	box.region.extent[0] = *bytes;
	if (!data)
		return 0;
	if (*bytes > room)
		return err_set(err, -ENOSPC, "blob %s has %llu bytes, and there is room for %zu",
			       quoted(blob->name).text, (unsigned long long)*bytes, room);
	return boxes_read(&lane->ck, &box, 1, &(struct restore_options){.threads = 1}, err);
}

int64_t ckpt_reader_blob(ckpt_reader *r, const char *name, void *data, size_t room)
{
	struct err err = {0};
	const struct manifest_tensor *blob = NULL;
	struct lane *lane;
	uint64_t bytes = 0;
	int rc = reader_check(r, &err);
	if (!rc)
		rc = find_blob(r, name, &blob, &err);
	if (!rc)
		rc = lane_take(r, &lane, &err);
	if (rc)
		return reader_fail(rc, &err);
	rc = read_blob(lane, blob, data, room, &bytes, &err);
	if (rc && rc != -ENOSPC)
		rc = tell(r, lane, rc, &err);
	lane_put(r, lane);
	return rc ? reader_fail(rc, &err) : (int64_t)bytes;
}
