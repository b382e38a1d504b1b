/* Tensors that the two checkpoints cut differently (another number of ranks, another partition): their leaves say nothing about
 * each other, so both are read, window by window in row-major order, through restore plans, which check every leaf. */
#include "inspect/diff.h"

#include "base/cleanup.h"
#include "store/read/restore.h"

#define WINDOW (64ull << 20) /* bytes, of each side */

static int fill(struct checkpoint *ck, const struct manifest_tensor *t, uint64_t start, uint64_t count, void *data,
		struct err *err)
{
	struct want want = {.tensor = t->name,
			    .dtype = t->dtype,
			    .shape = t->shape,
			    .region = region_flat(start, count),
			    .data = data};
	struct restore_options opts = {0};
	struct restore_plan *plan;
	int rc = restore_plan_make(ck, &want, 1, &plan, err);
	if (rc < 0)
		return rc == -ENODATA || rc == -EEXIST ? -EBADMSG : rc;
	rc = restore_execute(plan, &opts, err);
	restore_plan_free(plan);
	return rc;
}

static uint64_t after(const void *start, uint64_t at)
{
	return *(const uint64_t *)start + at;
}

static int compare_tensor(struct diff *d, struct diff_tensor *t, uint8_t *a, uint8_t *b, struct err *err)
{
	unsigned size = dtype_size(t->a->dtype);
	uint64_t volume = t->bytes / size;
	int rc = 0;
	for (uint64_t start = 0, count; start < volume && !rc; start += count) {
		struct difference part;
		count = min_u64(volume - start, WINDOW / size);
		rc = fill(d->a, t->a, start, count, a, err);
		if (!rc)
			rc = fill(d->b, t->b, start, count, b, err);
		if (rc < 0)
			return rc;
		difference_of(t->a->dtype, a, b, count, &part);
		difference_add(&t->difference, &part, after, &start);
		if (part.elements)
			t->state = DIFF_CHANGED;
		d->read += 2 * count * size;
		rc = diff_advance(d, count * size, err);
	}
	return rc;
}

int diff_whole(struct diff *d, struct err *err)
{
	if (!d->nwhole)
		return 0;
	AUTO_FREE uint8_t *a = malloc(WINDOW);
	AUTO_FREE uint8_t *b = malloc(WINDOW);
	if (!a || !b)
		return err_set(err, -ENOMEM, "no memory for two windows of %llu MiB", WINDOW >> 20);
	int rc = 0;
	for (uint32_t i = 0; i < d->nwhole && !rc; i++)
		rc = compare_tensor(d, &d->tensors[d->whole[i]], a, b, err);
	return rc;
}
