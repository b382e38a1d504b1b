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

static void add_out(struct cuda_route *out, struct cuda_part *part, const struct span *span)
{
	if (part->n && continues(&out->spans[out->n - 1], span)) {
		out->spans[out->n - 1].row_bytes += span->row_bytes;
		return;
	}
	out->spans[out->n++] = *span;
	part->n++;
}

int cuda_staging_lists(const struct span_list *list, char *staging, const struct cuda_segment *segments,
		       size_t nsegments, struct span **in, struct cuda_route *out, struct err *err)
{
	uint64_t at = 0;
	*in = calloc(list->n + 1, sizeof(**in));
	out->spans = calloc(list->n + 1, sizeof(*out->spans));
	if (!*in || !out->spans)
		return err_set(err, -ENOMEM, "out of memory for %zu spans", list->n);
	for (size_t s = 0; s < nsegments; s++) {
		out->parts[s] = (struct cuda_part){.first = out->n};
		for (size_t i = segments[s].first; i < segments[s].first + segments[s].n; i++) {
			const struct span *span = &list->spans[i];
			uint64_t bytes = span_bytes(span);
			(*in)[i] = *span;
			(*in)[i].arena_at = at;
			add_out(out, &out->parts[s],
				&(struct span){.memory = staging + at, .row_bytes = bytes, .arena_at = span->arena_at});
			at += bytes;
		}
	}
	return 0;
}
