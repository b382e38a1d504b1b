#include "cuda_staging.h"

#include "base/log.h"

#include <stdlib.h>

int cuda_staging_take(struct device *dev, size_t size, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	struct err why;
	if (dev->staging.users && dev->staging.size < size)
		return err_set(err, -ENOMEM, "GPU %d: the staging buffer of %zu bytes is in use, %zu are needed",
			       dev->ordinal, dev->staging.size, size);
	if (!dev->staging.users) {
		int rc = cuda_check(dev, rt->alloc(rt, &dev->staging.memory, size ? size : 1, dev->copies),
				    "taking memory", &why);
		if (rc < 0)
			return err_set(err, rc, "GPU %d: no %zu bytes to stage captures in: %s", dev->ordinal, size,
				       why.text);
		dev->staging.size = size;
	}
	dev->staging.users++;
	return 0;
}

void cuda_staging_put(struct device *dev)
{
	struct err err;
	if (--dev->staging.users)
		return;
	if (cuda_check(dev, dev->rt->free(dev->rt, dev->staging.memory, dev->copies), "freeing the staging buffer",
		       &err) < 0)
		log_warn("%s", err.text);
	dev->staging.memory = NULL;
}

/* Goes on where the last one ends, on both sides. */
static bool continues(const struct span *last, const struct span *span)
{
	return (char *)last->memory + last->row_bytes == span->memory &&
	       last->arena_at + last->row_bytes == span->arena_at;
}

static void add_out(struct cuda_segment *segment, struct span *out, size_t *nout, const struct span *span)
{
	if (segment->out_n && continues(&out[*nout - 1], span)) {
		out[*nout - 1].row_bytes += span->row_bytes;
		return;
	}
	out[(*nout)++] = *span;
	segment->out_n++;
}

int cuda_staging_lists(const struct span_list *list, char *staging, struct cuda_segment *segments, size_t nsegments,
		       struct span **in, struct span **out, size_t *nout, struct err *err)
{
	uint64_t at = 0;
	*nout = 0;
	*in = calloc(list->n + 1, sizeof(**in));
	*out = calloc(list->n + 1, sizeof(**out));
	if (!*in || !*out)
		return err_set(err, -ENOMEM, "out of memory for %zu spans", list->n);
	for (size_t s = 0; s < nsegments; s++) {
		segments[s].out_first = *nout;
		segments[s].out_n = 0;
		for (size_t i = segments[s].first; i < segments[s].first + segments[s].n; i++) {
			const struct span *span = &list->spans[i];
			uint64_t bytes = span_bytes(span);
			(*in)[i] = *span;
			(*in)[i].arena_at = at;
			add_out(&segments[s], *out, nout,
				&(struct span){.memory = staging + at, .row_bytes = bytes, .arena_at = span->arena_at});
			at += bytes;
		}
	}
	return 0;
}
