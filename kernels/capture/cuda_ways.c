#include "cuda_ways.h"

#include "cuda_merge.h"
#include "cuda_staging.h"

#include <stdlib.h>

/* spans: the list's, or in a staged plan the same with their places in the staging buffer. */
static int make_in(struct cuda_ways *ways, struct device *dev, void *base, uint64_t granule, const struct span *spans,
		   const struct cuda_segment *segments, size_t nsegments, struct err *err)
{
	struct cuda_route *in = &ways->in;
	struct cuda_allocation known = {0};
	int rc = 0;
	in->spans = calloc(ways->list.n + 1, sizeof(*in->spans));
	if (!in->spans)
		return err_set(err, -ENOMEM, "out of memory for %zu spans", ways->list.n);
	for (size_t s = 0; rc == 0 && s < nsegments; s++) {
		struct cuda_part *part = &in->parts[s];
		part->first = in->n;
		rc = cuda_merge(dev, spans + segments[s].first, segments[s].n, in->spans, part->first, &in->n, &known,
				err);
		part->n = in->n - part->first;
	}
	if (rc == 0)
		rc = cuda_gather_init(&ways->gather, dev, in, nsegments, err);
	return rc < 0 ? rc : cuda_route_init(in, dev, base, granule, err);
}

int cuda_ways_make(struct cuda_ways *ways, struct device *dev, void *base, uint64_t granule,
		   const struct cuda_segment *segments, size_t nsegments, bool staged, struct err *err)
{
	struct span *spans;
	int rc = 0;
	if (dev->rt->digest)
		rc = cuda_table_init(dev, &ways->all, ways->list.spans, ways->list.nall, err);
	if (rc == 0 && !staged)
		return make_in(ways, dev, base, granule, ways->list.spans, segments, nsegments, err);
	if (rc < 0)
		return rc;
	rc = cuda_staging_lists(&ways->list, dev->staging.memory, segments, nsegments, &spans, &ways->out, err);
	if (rc == 0)
		rc = make_in(ways, dev, dev->staging.memory, granule, spans, segments, nsegments, err);
	ways->out.room = dev->staging.memory;
	ways->out.room_size = dev->staging.size;
	if (rc == 0)
		rc = cuda_route_init(&ways->out, dev, base, granule, err);
	free(spans);
	return rc;
}

void cuda_ways_drop(struct cuda_ways *ways, struct device *dev)
{
	cuda_route_free(&ways->out);
	cuda_route_free(&ways->in);
	cuda_gather_free(&ways->gather, dev);
	cuda_table_free(dev, &ways->all);
	span_list_free(&ways->list);
}
