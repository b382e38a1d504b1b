/* Capture on CUDA. The copies of a plan are put on the stream anew at each launch, in batches: on an H200 a copy then costs the host a
 * third of what it costs as a node of a graph, and thousands of them do not wait for room in the queue of the GPU, as a graph of
 * them does until most are done (docs/explanation/gpu.md). */
#include "cuda_held.h"
#include "cuda_staging.h"
#include "cuda_ways.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>

struct plan {
	struct device *dev;
	void *base;
	uint64_t granule;
	struct cuda_ways ways;
	struct cuda_held held;
	struct cuda_segment *segments;
	size_t nsegments;
	bool staged;
	struct rt_event *begun, *digested, *copied;
	bool launched;  /* `copied` was recorded */
	bool digesting; /* it digests its sources: whoever changes them waits for that, too */
};

static void warn_if(struct device *dev, int code, const char *what)
{
	struct err err;
	if (cuda_check(dev, code, what, &err) < 0)
		log_warn("%s", err.text);
}

/* ---- making and freeing ------------------------------------------------------------------------------------------ */

static int make_events(struct plan *plan, struct err *err)
{
	struct device *dev = plan->dev;
	struct rt_event **events[] = {&plan->begun, &plan->digested, &plan->copied};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < 3; i++)
		rc = cuda_check(dev, dev->rt->event_create(dev->rt, events[i]), "creating an event", err);
	for (size_t i = 0; rc == 0 && i < plan->nsegments; i++)
		rc = cuda_check(dev, dev->rt->event_create(dev->rt, &plan->segments[i].read), "creating an event", err);
	return rc;
}

static int make_ways(struct plan *plan, struct cuda_ways *ways, struct err *err)
{
	return cuda_ways_make(ways, plan->dev, plan->base, plan->granule, plan->segments, plan->nsegments, plan->staged,
			      err);
}

static int make_parts(struct plan *plan, unsigned flags, struct err *err)
{
	struct device *dev = plan->dev;
	int rc = cuda_segments_find(&plan->ways.list, &plan->segments, &plan->nsegments, err);
	if (rc == 0)
		rc = make_events(plan, err);
	/* The table is waited for, and with it the memory for what is held. */
	if (rc == 0 && dev->rt->digest)
		rc = cuda_held_init(&plan->held, dev, &plan->ways.list, err);
	if (rc == 0 && flags & PLAN_STAGED)
		rc = cuda_staging_take(dev, plan->ways.list.bytes, err);
	plan->staged = rc == 0 && flags & PLAN_STAGED;
	return rc < 0 ? rc : make_ways(plan, &plan->ways, err);
}

static void drop_events(struct plan *plan)
{
	struct cuda_rt *rt = plan->dev->rt;
	struct rt_event *events[] = {plan->copied, plan->digested, plan->begun};
	for (size_t i = 0; i < plan->nsegments; i++)
		if (plan->segments[i].read)
			warn_if(plan->dev, rt->event_destroy(rt, plan->segments[i].read), "destroying an event");
	for (size_t i = 0; i < 3; i++)
		if (events[i])
			warn_if(plan->dev, rt->event_destroy(rt, events[i]), "destroying an event");
}

static void drop_handles(struct plan *plan)
{
	struct device *dev = plan->dev;
	struct err err;
	struct cuda_former former;
	bool entered = cuda_enter(dev, &former, &err) == 0;
	if (plan->launched && cuda_drain_at_end(dev, &err) < 0)
		log_warn("%s", err.text);
	cuda_ways_drop(&plan->ways, dev);
	cuda_held_free(&plan->held, dev);
	if (plan->staged)
		cuda_staging_put(dev);
	drop_events(plan);
	if (entered)
		cuda_leave(dev, &former);
}

void cuda_plan_free(struct plan *plan)
{
	if (!plan)
		return;
	struct device *dev = plan->dev;
	drop_handles(plan);
	free(plan->segments);
	free(plan);
	device_cuda_release(dev);
}

int cuda_plan_new(struct device *dev, void *base, const struct span *spans, size_t n, uint64_t granule, unsigned flags,
		  struct plan **out, struct err *err)
{
	struct cuda_former former;
	int rc;
	*out = NULL;
	if (!granule)
		return err_set(err, -EINVAL, "the granule of a plan is 0 bytes");
	struct plan *plan = calloc(1, sizeof(*plan));
	if (!plan)
		return err_set(err, -ENOMEM, "out of memory for a plan");
	plan->dev = dev;
	plan->base = base;
	plan->granule = granule;
	atomic_fetch_add(&dev->holders, 1);
	rc = span_list_init(&plan->ways.list, spans, n, err);
	if (rc == 0)
		rc = cuda_enter(dev, &former, err);
	if (rc == 0) {
		rc = make_parts(plan, flags, err);
		cuda_leave(dev, &former);
	}
	if (rc < 0) {
		cuda_plan_free(plan);
		return rc;
	}
	*out = plan;
	return 0;
}

/* Nothing of an earlier launch runs. */
static int check_ended(struct plan *plan, struct err *err)
{
	struct device *dev = plan->dev;
	if (!plan->launched)
		return 0;
	int code = dev->rt->event_query(dev->rt, plan->copied);
	if (code == RT_NOT_READY)
		return err_set(err, -EBUSY, "the plan's previous launch is still copying");
	return cuda_check(dev, code, "the plan's previous launch", err);
}

/* Events and segments stay as they are: another thread may be in the fence of an earlier launch. */
int cuda_plan_rebind(struct plan *plan, const struct span *spans, size_t n, struct err *err)
{
	struct cuda_former former;
	struct cuda_ways next = {0};
	int rc = cuda_enter(plan->dev, &former, err);
	if (rc < 0)
		return rc;
	rc = check_ended(plan, err);
	if (rc == 0)
		rc = span_list_again(&next.list, &plan->ways.list, spans, n, err);
	if (rc == 0)
		rc = make_ways(plan, &next, err);
	if (rc == 0) {
		struct cuda_ways replaced = plan->ways;
		plan->ways = next;
		next = replaced;
	}
	cuda_ways_drop(&next, plan->dev);
	cuda_leave(plan->dev, &former);
	return rc;
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

static int check_launch(struct plan *plan, const struct capture_target *target, unsigned flags, struct err *err)
{
	struct device *dev = plan->dev;
	if (atomic_load(&dev->closed))
		return err_set(err, -ECANCELED, "GPU %d was closed", dev->ordinal);
	if (!dev->rt->digest && (target->leaves || flags & CAPTURE_STRICT))
		return err_set(err, -EOPNOTSUPP, "GPU %d makes no source digests%s", dev->ordinal,
			       flags & CAPTURE_STRICT ? ", which strict mode needs" : "");
	if (flags & CAPTURE_STRICT && !target->leaves)
		return err_set(err, -EINVAL, "a strict capture needs room for the source digests");
	return check_ended(plan, err);
}

/* On the caller's stream: the point in time that is captured, and the digests of the state there. The gathering comes first, which is short: the
 * copies need not wait for the digests of everything. */
static int issue_begin(struct plan *plan, struct rt_stream *stream, const struct capture_target *target,
		       struct err *err)
{
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	int rc = cuda_gather_issue(&plan->ways.gather, dev, stream, err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_record(rt, plan->begun, stream), "recording an event", err);
	if (rc < 0 || !target->leaves)
		return rc;
	if (plan->ways.all.units)
		rc = cuda_check(dev,
				rt->digest(rt, stream, &plan->ways.all.gpu, 0, plan->ways.all.units, target->leaves,
					   target->held ? plan->held.changed : NULL),
				"starting the digests", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_record(rt, plan->digested, stream), "recording an event", err);
	return rc;
}

/* Which leaves of a group that is held are copied nobody knows here, so that the counter takes it in one step. */
static int tell_held(struct plan *plan, const struct cuda_segment *segment, const struct capture_target *target,
		     struct err *err)
{
	return cuda_tell(plan->dev, (void *)target->progress, segment->before + segment->bytes, 8,
			 "writing its progress", err);
}

static int issue_held(struct plan *plan, const struct cuda_segment *segment, const struct capture_target *target,
		      struct err *err)
{
	struct device *dev = plan->dev;
	int rc = cuda_check(dev, dev->rt->stream_wait(dev->rt, dev->copies, plan->digested), "waiting for an event",
			    err);
	if (rc == 0)
		rc = cuda_held_issue(&plan->held, dev, &plan->ways.all, segment, plan->base, err);
	return rc == 0 && !plan->staged ? tell_held(plan, segment, target, err) : rc;
}

/* The reading of the sources. The event of a group without bytes is never waited for. */
static int issue_in(struct plan *plan, const struct capture_target *target, struct err *err)
{
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < plan->nsegments; i++) {
		struct cuda_segment *segment = &plan->segments[i];
		if (!segment->bytes)
			continue;
		rc = segment->held ? issue_held(plan, segment, target, err)
				   : cuda_route_issue(&plan->ways.in, segment->part, segment->before,
						      plan->staged ? NULL : target->progress, err);
		if (rc == 0)
			rc = cuda_check(dev, rt->event_record(rt, segment->read, dev->copies), "recording an event",
					err);
	}
	return rc < 0 ? rc : cuda_gather_read(&plan->ways.gather, dev, err);
}

static int issue_out(struct plan *plan, const struct capture_target *target, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && plan->staged && i < plan->nsegments; i++) {
		struct cuda_segment *segment = &plan->segments[i];
		if (segment->bytes)
			rc = segment->held ? tell_held(plan, segment, target, err)
					   : cuda_route_issue(&plan->ways.out, segment->part, segment->before,
							      target->progress, err);
	}
	return rc;
}

/* On the side stream. */
static int issue_capture(struct plan *plan, const struct capture_target *target, struct err *err)
{
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	int rc = cuda_check(dev, rt->stream_wait(rt, dev->copies, plan->begun), "waiting for an event", err);
	if (rc == 0)
		rc = issue_in(plan, target, err);
	if (rc == 0)
		rc = issue_out(plan, target, err);
	if (rc == 0 && target->leaves)
		rc = cuda_check(dev, rt->stream_wait(rt, dev->copies, plan->digested), "waiting for an event", err);
	if (rc == 0)
		rc = cuda_tell(dev, (void *)target->done, 1, 4, "writing its end", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_record(rt, plan->copied, dev->copies), "recording an event", err);
	return rc;
}

/* Half of a launch must not go on behind the error: waits for what was started. */
static void stop_half(struct plan *plan, struct rt_stream *stream)
{
	struct err err;
	if (cuda_drain(plan->dev, plan->dev->copies, &err) < 0 || cuda_drain(plan->dev, stream, &err) < 0)
		log_warn("%s", err.text);
}

static int launch(struct plan *plan, struct rt_stream *stream, const struct capture_target *target, struct err *err)
{
	int rc = cuda_stand_in(plan->dev, stream, &stream, err);
	if (rc < 0)
		return rc;
	plan->launched = false;
	atomic_store(target->progress, 0);
	atomic_store(target->done, 0);
	cuda_held_guess(&plan->ways.list, plan->segments, plan->nsegments, target);
	rc = issue_begin(plan, stream, target, err);
	if (rc == 0)
		rc = issue_capture(plan, target, err);
	plan->launched = rc == 0;
	plan->digesting = target->leaves != NULL;
	if (rc == 0)
		return 0;
	stop_half(plan, stream);
	atomic_store(target->done, (uint32_t)rc);
	return rc;
}

int cuda_plan_launch(struct plan *plan, void *stream, const struct capture_target *target, unsigned flags,
		     struct err *err)
{
	struct cuda_former former;
	int rc = cuda_enter(plan->dev, &former, err);
	if (rc < 0)
		return rc;
	cuda_range_begin(plan->dev, "ckpt: begin a capture");
	rc = check_launch(plan, target, flags, err);
	if (rc == 0)
		rc = launch(plan, stream, target, err);
	cuda_range_end(plan->dev);
	cuda_leave(plan->dev, &former);
	return rc;
}

/* ---- fence ------------------------------------------------------------------------------------------------------- */

static int wait_for_groups(struct plan *plan, uint32_t group, struct rt_stream *stream, struct err *err)
{
	struct device *dev = plan->dev;
	int rc = 0;
	if (plan->digesting) /* by the stream of the launch, which need not be this one */
		rc = cuda_check(dev, dev->rt->stream_wait(dev->rt, stream, plan->digested), "waiting for an event",
				err);
	for (size_t i = 0; rc == 0 && i < plan->nsegments; i++) {
		const struct cuda_segment *segment = &plan->segments[i];
		if ((group == FENCE_ALL || group == segment->group) && segment->bytes)
			rc = cuda_check(dev, dev->rt->stream_wait(dev->rt, stream, segment->read),
					"waiting for an event", err);
	}
	return rc;
}

int cuda_plan_fence(struct plan *plan, uint32_t group, void *stream, uint64_t deadline, uint64_t *bad_leaf,
		    struct err *err)
{
	(void)deadline; /* the stream waits, never the thread */
	(void)bad_leaf; /* a torn leaf shows when the arena is compared with the source digests */
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	if (!plan->launched)
		return err_set(err, -EINVAL, "the plan was never launched");
	struct cuda_former former;
	int rc = cuda_enter(dev, &former, err);
	if (rc < 0)
		return rc;
	cuda_range_begin(dev, "ckpt: fence");
	int code = rt->event_query(rt, plan->copied);
	if (code != RT_NOT_READY)
		rc = cuda_check(dev, code, "its copies", err);
	bool foreign = false;
	if (rc == 0)
		rc = cuda_foreign(dev, stream, &foreign, err);
	if (rc == 0)
		rc = wait_for_groups(plan, group, stream, err);
	if (rc == 0 && foreign)
		rc = wait_for_groups(plan, group, NULL, err);
	cuda_range_end(dev);
	cuda_leave(dev, &former);
	return rc;
}

void cuda_plan_cancel(struct plan *plan)
{
	(void)plan; /* the stream runs what was put on it */
}
