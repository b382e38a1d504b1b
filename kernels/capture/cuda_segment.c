#include "cuda_segment.h"

#include "base/log.h"
#include "format/tensor/digest.h"

#include <inttypes.h>
#include <stdlib.h>

static bool begins_group(const struct span_list *list, size_t i)
{
	return !i || list->spans[i].group != list->spans[i - 1].group;
}

static int add_segment(struct cuda_segment *segments, size_t *n, uint32_t group, size_t first, uint64_t before,
		       struct err *err)
{
	const struct cuda_segment *last = *n ? &segments[*n - 1] : NULL;
	for (size_t i = 0; i < *n; i++)
		if (segments[i].group == group)
			return err_set(err, -EINVAL, "the spans of group %" PRIu32 " do not stand together", group);
	segments[*n] = (struct cuda_segment){.group = group,
					     .first = first,
					     .part = *n,
					     .before = before,
					     .first_unit = last ? last->first_unit + last->units : 0};
	(*n)++;
	return 0;
}

int cuda_segments_find(const struct span_list *list, struct cuda_segment **out, size_t *n, struct err *err)
{
	struct cuda_segment *segments = calloc(PLAN_GROUPS_MAX, sizeof(*segments));
	uint64_t before = 0;
	*n = 0;
	*out = segments;
	if (!segments)
		return err_set(err, -ENOMEM, "out of memory for the groups of a plan");
	for (size_t i = 0; i < list->n; i++) {
		int rc = begins_group(list, i) ? add_segment(segments, n, list->spans[i].group, i, before, err) : 0;
		if (rc < 0)
			return rc;
		segments[*n - 1].n++;
		segments[*n - 1].bytes += span_bytes(&list->spans[i]);
		segments[*n - 1].units += leaf_count(span_bytes(&list->spans[i]));
		before += span_bytes(&list->spans[i]);
	}
	return 0;
}

static void drop(struct device *dev, struct rt_graph **graph)
{
	struct err err;
	if (*graph && cuda_check(dev, dev->rt->graph_destroy(dev->rt, *graph), "destroying a graph", &err) < 0)
		log_warn("%s", err.text);
	*graph = NULL;
}

static int record(const struct cuda_segment *segment, struct cuda_route *route, _Atomic uint64_t *progress,
		  struct rt_graph **graph, struct err *err)
{
	struct device *dev = route->dev;
	struct cuda_rt *rt = dev->rt;
	int rc = cuda_check(dev, rt->capture_begin(rt, dev->copies), "beginning to record a graph", err);
	if (rc < 0)
		return rc;
	rc = cuda_route_issue(route, segment->part, segment->before, progress, err);
	/* Ended in any case: the stream must not go on recording. */
	int code = rt->capture_end(rt, dev->copies, graph);
	if (code)
		*graph = NULL; /* whatever a runtime left there */
	if (rc == 0)
		return cuda_check(dev, code, "making a graph", err);
	if (!code)
		drop(dev, graph);
	return rc;
}

int cuda_segment_record(struct cuda_segment *segment, struct cuda_route *in, struct cuda_route *out,
			_Atomic uint64_t *progress, struct err *err)
{
	cuda_segment_forget(in->dev, segment);
	if (!segment->bytes || in->dev->rt->batched)
		return 0;
	int rc = record(segment, in, out ? NULL : progress, &segment->in, err);
	if (rc == 0 && out)
		rc = record(segment, out, progress, &segment->out, err);
	return rc;
}

void cuda_segment_forget(struct device *dev, struct cuda_segment *segment)
{
	drop(dev, &segment->in);
	drop(dev, &segment->out);
}

int cuda_segment_run(struct cuda_segment *segment, struct cuda_route *route, bool out, _Atomic uint64_t *progress,
		     struct err *err)
{
	struct device *dev = route->dev;
	struct rt_graph *graph = out ? segment->out : segment->in;
	if (!graph)
		return cuda_route_issue(route, segment->part, segment->before, progress, err);
	return cuda_check(dev, dev->rt->graph_launch(dev->rt, graph, dev->copies), "launching the copies", err);
}
