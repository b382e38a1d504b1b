/* Capture on CUDA. The copies of a plan are one graph, made at its first launch (and again when the progress counter
 * moves): a save costs the host a handful of calls, however many spans there are. */
#include "device_cuda.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>

/* Copies in one plan. Above this (many short rows in strided memory) a kernel has to pack them. */
enum { PLAN_CALLS_MAX = 1 << 20 };

struct plan {
	struct device *dev;
	char *base;
	uint64_t granule;
	struct span_list list;
	struct rt_event *begun, *digested, *copied;
	struct rt_graph *graph;
	_Atomic uint64_t *graph_progress; /* where the graph tells its progress */
	bool launched;                    /* `copied` was recorded */
};

static int make_events(struct plan *plan, struct err *err)
{
	struct device *dev = plan->dev;
	struct rt_event **events[] = {&plan->begun, &plan->digested, &plan->copied};
	int former, rc = cuda_enter(dev, &former, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < 3; i++)
		rc = cuda_check(dev, dev->rt->event_create(dev->rt, events[i]), "creating an event", err);
	cuda_leave(dev, former);
	return rc;
}

static void warn_if(struct device *dev, int code, const char *what)
{
	struct err err;
	if (cuda_check(dev, code, what, &err) < 0)
		log_warn("%s", err.text);
}

static void drop_graph(struct plan *plan)
{
	if (plan->graph)
		warn_if(plan->dev, plan->dev->rt->graph_destroy(plan->dev->rt, plan->graph), "destroying a graph");
	plan->graph = NULL;
}

static void drop_handles(struct plan *plan)
{
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	struct rt_event *events[] = {plan->copied, plan->digested, plan->begun};
	struct err err;
	int former;
	bool entered = cuda_enter(dev, &former, &err) == 0;
	if (plan->launched && cuda_drain(dev, dev->copies, &err) < 0)
		log_warn("%s", err.text);
	drop_graph(plan);
	for (size_t i = 0; i < 3; i++)
		if (events[i])
			warn_if(dev, rt->event_destroy(rt, events[i]), "destroying an event");
	if (entered)
		cuda_leave(dev, former);
}

void cuda_plan_free(struct plan *plan)
{
	if (!plan)
		return;
	struct device *dev = plan->dev;
	drop_handles(plan);
	span_list_free(&plan->list);
	free(plan);
	device_cuda_release(dev);
}

static int check_calls(const struct span_list *list, struct err *err)
{
	uint64_t left = PLAN_CALLS_MAX;
	for (size_t i = 0; i < list->n; i++) {
		uint64_t calls = cuda_copy_calls(&list->spans[i], left);
		if (calls == left)
			return err_set(
				err, -E2BIG,
				"the state needs more than %d copies: register packed memory instead of span %zu",
				PLAN_CALLS_MAX, i);
		left -= calls;
	}
	return 0;
}

int cuda_plan_new(struct device *dev, void *base, const struct span *spans, size_t n, uint64_t granule,
		  struct plan **out, struct err *err)
{
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
	int rc = span_list_init(&plan->list, spans, n, err);
	if (rc == 0)
		rc = check_calls(&plan->list, err);
	if (rc == 0)
		rc = make_events(plan, err);
	if (rc < 0) {
		cuda_plan_free(plan);
		return rc;
	}
	*out = plan;
	return 0;
}

/* Puts all copies on the stream, cut at the steps of the counter. */
static int issue_copies(struct plan *plan, _Atomic uint64_t *progress, struct err *err)
{
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	uint64_t arrived = 0, told = 0;
	for (size_t i = 0; i < plan->list.n; i++) {
		const struct span *span = &plan->list.spans[i];
		uint64_t bytes = span_bytes(span);
		for (uint64_t at = 0, n; at < bytes; at += n) {
			n = min_u64(bytes - at, told + plan->granule - arrived);
			char *packed = plan->base + span->arena_at + at;
			int rc = cuda_copy_span(dev, span, packed, at, n, CUDA_TO_ARENA, dev->copies, err);
			if (rc < 0)
				return rc;
			arrived += n;
			if (arrived - told < plan->granule && arrived < plan->list.bytes)
				continue;
			rc = cuda_check(dev, rt->write64(rt, dev->copies, (void *)progress, arrived),
					"writing its progress", err);
			if (rc < 0)
				return rc;
			told = arrived;
		}
	}
	return 0;
}

static int make_graph(struct plan *plan, _Atomic uint64_t *progress, struct err *err)
{
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	drop_graph(plan);
	int rc = cuda_check(dev, rt->capture_begin(rt, dev->copies), "beginning to record a graph", err);
	if (rc < 0)
		return rc;
	rc = issue_copies(plan, progress, err);
	/* Ended in any case: the stream must not go on recording. */
	int code = rt->capture_end(rt, dev->copies, &plan->graph);
	if (rc == 0)
		return plan->graph_progress = progress, cuda_check(dev, code, "making a graph", err);
	if (!code)
		drop_graph(plan);
	return rc;
}

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
	if (!plan->launched)
		return 0;
	int code = dev->rt->event_query(dev->rt, plan->copied);
	if (code == RT_NOT_READY)
		return err_set(err, -EBUSY, "the plan's previous launch is still copying");
	return cuda_check(dev, code, "the plan's previous launch", err);
}

/* On the caller's stream: the point in time that is captured, and the digests of the state there. */
static int issue_begin(struct plan *plan, struct rt_stream *stream, uint64_t *leaves, struct err *err)
{
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	int rc = cuda_check(dev, rt->event_record(rt, plan->begun, stream), "recording an event", err);
	if (rc < 0 || !leaves)
		return rc;
	rc = cuda_check(dev, rt->digest(rt, stream, plan->list.spans, plan->list.n, leaves), "starting the digests",
			err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_record(rt, plan->digested, stream), "recording an event", err);
	return rc;
}

/* On the side stream. */
static int issue_capture(struct plan *plan, const struct capture_target *target, struct err *err)
{
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	int rc = cuda_check(dev, rt->stream_wait(rt, dev->copies, plan->begun), "waiting for an event", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->graph_launch(rt, plan->graph, dev->copies), "launching the copies", err);
	if (rc == 0 && target->leaves)
		rc = cuda_check(dev, rt->stream_wait(rt, dev->copies, plan->digested), "waiting for an event", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->write32(rt, dev->copies, (void *)target->done, 1), "writing its end", err);
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
	int rc = 0;
	if (!plan->graph || plan->graph_progress != target->progress)
		rc = make_graph(plan, target->progress, err);
	if (rc < 0)
		return rc;
	plan->launched = false;
	atomic_store(target->progress, 0);
	atomic_store(target->done, 0);
	rc = issue_begin(plan, stream, target->leaves, err);
	if (rc == 0)
		rc = issue_capture(plan, target, err);
	plan->launched = rc == 0;
	if (rc == 0)
		return 0;
	stop_half(plan, stream);
	atomic_store(target->done, (uint32_t)rc);
	return rc;
}

int cuda_plan_launch(struct plan *plan, void *stream, const struct capture_target *target, unsigned flags,
		     struct err *err)
{
	int former, rc = cuda_enter(plan->dev, &former, err);
	if (rc < 0)
		return rc;
	rc = check_launch(plan, target, flags, err);
	if (rc == 0)
		rc = launch(plan, stream, target, err);
	cuda_leave(plan->dev, former);
	return rc;
}

int cuda_plan_fence(struct plan *plan, void *stream, uint64_t deadline, uint64_t *bad_leaf, struct err *err)
{
	(void)deadline; /* the stream waits, never the thread */
	(void)bad_leaf; /* a torn leaf shows when the arena is compared with the source digests */
	struct device *dev = plan->dev;
	struct cuda_rt *rt = dev->rt;
	if (!plan->launched)
		return err_set(err, -EINVAL, "the plan was never launched");
	int former, rc = cuda_enter(dev, &former, err);
	if (rc < 0)
		return rc;
	int code = rt->event_query(rt, plan->copied);
	if (code != RT_NOT_READY)
		rc = cuda_check(dev, code, "its copies", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->stream_wait(rt, stream, plan->copied), "waiting for an event", err);
	cuda_leave(dev, former);
	return rc;
}

void cuda_plan_cancel(struct plan *plan)
{
	(void)plan; /* the stream runs what was put on it */
}
