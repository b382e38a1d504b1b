#include "span.h"

#include <inttypes.h>
#include <stdlib.h>

static int too_large(struct err *err)
{
	return err_set(err, -EOVERFLOW, "the span's rows, counts and strides do not fit 63 bits");
}

/* How far the loops reach from `memory`, so that no address on the way wraps. */
static bool reach_fits(const struct span *span)
{
	uint64_t reach = span->row_bytes;
	for (uint32_t d = 0; d < span->ndim; d++) {
		uint64_t step = span->stride[d] < 0 ? -(uint64_t)span->stride[d] : (uint64_t)span->stride[d], far;
		/* count × step, not (count - 1) × step: a walk stands one step behind the end for a moment. */
		if (__builtin_mul_overflow(step, span->count[d], &far) || __builtin_add_overflow(reach, far, &reach))
			return false;
	}
	return reach <= INT64_MAX;
}

int span_check(const struct span *span, uint64_t *bytes, struct err *err)
{
	if (span->ndim > SPAN_NDIM_MAX)
		return err_set(err, -EINVAL, "the span has %" PRIu32 " dimensions, more than %d", span->ndim,
			       SPAN_NDIM_MAX);
	uint64_t image = span->row_bytes, end;
	for (uint32_t d = 0; d < span->ndim; d++)
		if (__builtin_mul_overflow(image, span->count[d], &image))
			return too_large(err);
	if (__builtin_add_overflow(image, span->arena_at, &end) || end > INT64_MAX || image > INT64_MAX ||
	    (image && !reach_fits(span)))
		return too_large(err);
	if (span->skip > image || span->take > image - span->skip)
		return err_set(err, -EINVAL, "the part %" PRIu64 "+%" PRIu64 " leaves the span's %" PRIu64 " bytes",
			       span->skip, span->take, image);
	if (image && !span->memory)
		return err_set(err, -EINVAL, "the span's memory is NULL");
	if (span->group >= PLAN_GROUPS_MAX && span->group != SPAN_WITNESS)
		return err_set(err, -EINVAL, "the span's group %" PRIu32 " is above %d", span->group,
			       PLAN_GROUPS_MAX - 1);
	if (bytes)
		*bytes = span_bytes(span);
	return 0;
}

int span_list_init(struct span_list *list, const struct span *spans, size_t n, struct err *err)
{
	*list = (struct span_list){0};
	list->spans = calloc(n ? n : 1, sizeof(*list->spans));
	if (!list->spans)
		return err_set(err, -ENOMEM, "out of memory for %zu spans", n);
	for (size_t i = 0; i < n; i++) {
		uint64_t bytes;
		int rc = span_check(&spans[i], &bytes, err);
		bool witness = spans[i].group == SPAN_WITNESS;
		if (rc == 0 && (bytes > INT64_MAX - list->bytes))
			rc = too_large(err);
		if (rc == 0 && !witness && list->nall > list->n)
			rc = err_set(err, -EINVAL, "it stands behind one that is only digested");
		if (rc < 0) {
			span_list_free(list);
			return err_prefix(err, rc, "span %zu of %zu", i, n);
		}
		list->spans[i] = spans[i];
		span_simplify(&list->spans[i]);
		list->nall++;
		list->n += !witness;
		list->bytes += witness ? 0 : bytes;
	}
	return 0;
}

void span_list_free(struct span_list *list)
{
	free(list->spans);
	*list = (struct span_list){0};
}

/* Both simplified, which the memory does not matter to. */
static bool same_image(const struct span *a, const struct span *b)
{
	bool same = a->arena_at == b->arena_at && a->row_bytes == b->row_bytes && a->ndim == b->ndim &&
		    a->first_leaf == b->first_leaf && a->skip == b->skip && a->take == b->take && a->group == b->group;
	for (uint32_t d = 0; same && d < a->ndim; d++)
		same = a->count[d] == b->count[d] && a->stride[d] == b->stride[d];
	return same;
}

static int differs(size_t i, size_t n, struct err *err)
{
	return err_set(err, -EINVAL, "span %zu of %zu differs in more than its memory", i, n);
}

int span_list_again(struct span_list *list, const struct span_list *former, const struct span *spans, size_t n,
		    struct err *err)
{
	*list = (struct span_list){0};
	if (n != former->nall)
		return err_set(err, -EINVAL, "%zu spans are not the %zu of the plan", n, former->nall);
	int rc = span_list_init(list, spans, n, err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (!same_image(&list->spans[i], &former->spans[i]))
			rc = differs(i, n, err);
	if (rc < 0)
		span_list_free(list);
	return rc;
}

static int moved(const struct span_list *list, const struct span *span, uint32_t place, struct span *out,
		 struct err *err)
{
	if (place >= list->nall)
		return err_set(err, -EINVAL, "there is no span %u of %zu", place, list->nall);
	int rc = span_check(span, NULL, err);
	if (rc < 0)
		return err_prefix(err, rc, "span %u of %zu", place, list->nall);
	*out = *span;
	span_simplify(out);
	return same_image(out, &list->spans[place]) ? 0 : differs(place, list->nall, err);
}

int span_list_move(struct span_list *list, const struct span *spans, const uint32_t *which, size_t n, struct err *err)
{
	struct span span;
	for (size_t i = 0; i < n; i++) {
		int rc = moved(list, &spans[i], which[i], &span, err);
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < n; i++)
		(void)moved(list, &spans[i], which[i], &list->spans[which[i]], err);
	return 0;
}
