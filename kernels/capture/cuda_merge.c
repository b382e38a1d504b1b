#include "cuda_merge.h"

static bool holds(const struct cuda_allocation *a, const struct span *span)
{
	const char *memory = span->memory;
	return memory >= a->base && (size_t)(memory - a->base) <= a->size &&
	       span->row_bytes <= a->size - (size_t)(memory - a->base);
}

static bool adjoins(const struct span *last, const struct span *span)
{
	return !last->ndim && !span->ndim && (char *)last->memory + last->row_bytes == span->memory &&
	       last->arena_at + last->row_bytes == span->arena_at;
}

/* What the driver knows no allocation of stands for itself. */
static int same_allocation(struct device *dev, const struct span *last, const struct span *span,
			   struct cuda_allocation *known, bool *same, struct err *err)
{
	int rc = 0;
	if (!holds(known, span))
		rc = cuda_check(dev,
				dev->rt->allocation(dev->rt, span->memory, (void **)(void *)&known->base, &known->size),
				"asking which memory a tensor stands in", err);
	*same = rc == 0 && holds(known, span) && holds(known, last);
	return rc;
}

int cuda_merge(struct device *dev, const struct span *spans, size_t n, struct span *out, size_t first, size_t *nout,
	       struct cuda_allocation *known, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct span *last = *nout > first ? &out[*nout - 1] : NULL;
		bool same = false;
		if (!span_bytes(&spans[i]))
			continue;
		if (last && adjoins(last, &spans[i]))
			rc = same_allocation(dev, last, &spans[i], known, &same, err);
		if (same)
			last->row_bytes += spans[i].row_bytes;
		else
			out[(*nout)++] = spans[i];
	}
	return rc;
}
