#include "cuda_held.h"

#include "base/log.h"
#include "format/tensor/digest.h"

/* Leaves of a group that are looked at: where half of all change, one guess in 256 is wrong. */
enum { SAMPLES = 8 };
/* With a group that is held the copies wait for the digests of everything, which is worth while when it is more than the bus would move
 * in that time: a device's bandwidth of memory, times that of its bus. 82 on an H200; less is on the
 * safe side. */
enum { DIGESTS_PER_COPY = 32 };

int cuda_held_init(struct cuda_held *held, struct device *dev, const struct span_list *list, struct err *err)
{
	uint64_t units = 0;
	void *memory = NULL;
	for (size_t i = 0; i < list->nall; i++)
		units += leaf_count(span_bytes(&list->spans[i]));
	if (!units)
		return 0;
	int rc = cuda_check(dev, dev->rt->alloc(dev->rt, &memory, units, dev->copies),
			    "taking memory for what has changed", err);
	held->changed = memory;
	return rc;
}

void cuda_held_free(struct cuda_held *held, struct device *dev)
{
	struct err err;
	if (held->changed && cuda_check(dev, dev->rt->free(dev->rt, held->changed, dev->copies),
					"freeing the memory for what has changed", &err) < 0)
		log_warn("%s", err.text);
	held->changed = NULL;
}

static bool seems_held(const struct span_list *list, const struct cuda_segment *segment,
		       const struct capture_target *target)
{
	for (size_t k = 0; k < SAMPLES; k++) {
		const struct span *span = &list->spans[segment->first + segment->n * k / SAMPLES];
		uint64_t leaves = leaf_count(span_bytes(span)), leaf = span->first_leaf + leaves * k / SAMPLES;
		if (leaves && target->leaves[leaf] != target->newest[leaf])
			return false;
	}
	return true;
}

void cuda_held_guess(const struct span_list *list, struct cuda_segment *segments, size_t n,
		     const struct capture_target *target)
{
	bool known = target->held && target->leaves && target->newest;
	uint64_t bytes = 0;
	for (size_t i = 0; i < n; i++) {
		segments[i].held = known && segments[i].bytes && seems_held(list, &segments[i], target);
		bytes += segments[i].held ? segments[i].bytes : 0;
	}
	for (size_t i = 0; i < n; i++)
		segments[i].held &= bytes >= list->bytes / DIGESTS_PER_COPY;
}

int cuda_held_issue(const struct cuda_held *held, struct device *dev, const struct cuda_table *table,
		    const struct cuda_segment *segment, void *base, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	return cuda_check(
		dev,
		rt->pack(rt, dev->copies, &table->gpu, segment->first_unit, segment->units, held->changed, base, false),
		"starting to copy what has changed", err);
}
