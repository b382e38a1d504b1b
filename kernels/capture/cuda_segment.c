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
