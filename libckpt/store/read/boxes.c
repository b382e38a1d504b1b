#include "store/read/boxes.h"

#include "base/cleanup.h"
#include "base/quoted.h"
#include "format/arena/sized_blob.h"
#include "format/tensor/box_walk.h"
#include "kernels.h"

#include <stdlib.h>

/* Where a part of a box with gaps waits in the window. */
struct landed {
	const struct box *box;
	struct region part;
	uint64_t at, bytes;
};

struct boxes {
	struct checkpoint *ck;
	const struct restore_options *opts;
	uint64_t done, total; /* bytes of all boxes */
	uint8_t *window;      /* made when the first one needs it */
	uint64_t used;
	struct want *wants; /* of the next restore */
	struct landed *landed;
	size_t nwants, nlanded, cap;
};

static uint64_t bytes_of(const struct box *box, const struct region *region)
{
	return region_volume(&box->tensor->shape, region) * dtype_size(box->tensor->dtype);
}

static int progress(void *arg, uint64_t done, uint64_t total)
{
	const struct boxes *b = arg;
	(void)total;
	return b->opts->progress ? b->opts->progress(b->opts->arg, b->done + done, b->total) : 0;
}

/* ---- one restore ------------------------------------------------------------------------------------------------- */

/* The part as the device layer copies: elements, in as many loops as the tensor has dimensions. */
static void spread(const struct boxes *b, const struct landed *l)
{
	const struct box *box = l->box;
	struct span span = {.row_bytes = dtype_size(box->tensor->dtype), .ndim = box->tensor->shape.ndim};
	char *at = box->data;
	for (uint32_t d = 0; d < span.ndim; d++) {
		at += (int64_t)(l->part.offset[d] - box->region.offset[d]) * box->stride[d];
		span.count[d] = l->part.extent[d];
		span.stride[d] = box->stride[d];
	}
	span.memory = at;
	span_unpack(&span, b->window + l->at, 0, l->bytes);
}

static int flush(struct boxes *b, struct err *err)
{
	struct restore_options opts = {
		.threads = b->opts->threads, .memory = b->opts->memory, .progress = progress, .arg = b};
	struct restore_plan *plan;
	uint64_t bytes, ignored;
	if (!b->nwants)
		return 0;
	int rc = restore_plan_make(b->ck, b->wants, b->nwants, &plan, err);
	if (rc)
		return rc == -ENODATA || rc == -EEXIST ? -EBADMSG : rc;
	restore_plan_cost(plan, &bytes, &ignored);
	rc = restore_execute(plan, &opts, err);
	restore_plan_free(plan);
	for (size_t i = 0; !rc && i < b->nlanded; i++)
		spread(b, &b->landed[i]);
	b->done += bytes;
	b->nwants = b->nlanded = 0;
	b->used = 0;
	return rc;
}

/* ---- what it is of ----------------------------------------------------------------------------------------------- */

static int grow(struct boxes *b, struct err *err)
{
	if (b->nwants < b->cap)
		return 0;
	size_t cap = b->cap ? b->cap * 2 : 64;
	struct want *wants = realloc(b->wants, cap * sizeof(*wants));
	b->wants = wants ? wants : b->wants;
	struct landed *landed = realloc(b->landed, cap * sizeof(*landed));
	b->landed = landed ? landed : b->landed;
	if (!wants || !landed)
		return err_set(err, -ENOMEM, "no memory for a list of %zu boxes", cap);
	b->cap = cap;
	return 0;
}

static int add(struct boxes *b, const struct box *box, const struct region *part, void *data, struct err *err)
{
	int rc = grow(b, err);
	if (rc)
		return rc;
	b->wants[b->nwants++] = (struct want){.tensor = box->tensor->name,
					      .dtype = box->tensor->dtype,
					      .shape = box->tensor->shape,
					      .region = *part,
					      .data = data};
	return 0;
}

static int add_part(struct boxes *b, const struct box *box, const struct region *part, struct err *err)
{
	uint64_t bytes = bytes_of(box, part);
	int rc = b->used + bytes > BOXES_WINDOW ? flush(b, err) : 0;
	if (!rc)
		rc = add(b, box, part, b->window + b->used, err);
	if (rc)
		return rc;
	b->landed[b->nlanded++] = (struct landed){box, *part, b->used, bytes};
	b->used += bytes;
	return 0;
}

static int add_box(struct boxes *b, const struct box *box, struct err *err)
{
	struct box_walk walk;
	struct region part;
	int rc = 0;
	if (box->packed)
		return bytes_of(box, &box->region) ? add(b, box, &box->region, box->data, err) : 0;
	if (!b->window && !(b->window = malloc(min_u64(b->total, BOXES_WINDOW) + 1)))
		return err_set(err, -ENOMEM, "no memory for a window of %llu MiB", BOXES_WINDOW >> 20);
	box_walk_start(&walk, &box->tensor->shape, &box->region, BOXES_WINDOW / dtype_size(box->tensor->dtype));
	while (!rc && box_walk_next(&walk, &part))
		rc = add_part(b, box, &part, err);
	return rc;
}

int boxes_read(struct checkpoint *ck, const struct box *boxes, size_t n, const struct restore_options *opts,
	       struct err *err)
{
	struct boxes b = {.ck = ck, .opts = opts};
	int rc = 0;
	for (size_t i = 0; i < n; i++)
		b.total += bytes_of(&boxes[i], &boxes[i].region);
	for (size_t i = 0; i < n && !rc; i++)
		rc = add_box(&b, &boxes[i], err);
	if (!rc)
		rc = flush(&b, err);
	free(b.window);
	free(b.wants);
	free(b.landed);
	return rc;
}

int boxes_blob_length(struct checkpoint *ck, const struct manifest_tensor *blob, uint64_t *length, struct err *err)
{
	uint8_t head[SIZED_HEAD];
	const struct box box = {
		.tensor = blob, .region = {.kind = REGION_BOX, .extent = {SIZED_HEAD}}, .data = head, .packed = true};
	int rc = boxes_read(ck, &box, 1, &(struct restore_options){.threads = 1}, err);
	if (rc)
		return rc;
	*length = sized_length(head);
	if (*length <= blob->shape.dim[0] - SIZED_HEAD)
		return 0;
	return err_set(err, -EBADMSG, "blob %s says that it has %llu bytes, in a room of %llu", quoted(blob->name).text,
		       (unsigned long long)*length, (unsigned long long)blob->shape.dim[0] - SIZED_HEAD);
}
