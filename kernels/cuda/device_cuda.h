/* The CUDA device over any table of runtime calls; apart from its own files only the tests look in here.
 *
 * A launch, with the streams that it touches ("copies" is the device's own side stream):
 *
 *	caller's   … work ─ [gather what is small] ─ record begun ─ [digest sources] ─ record digested ─ …
 *	           … wait read (fence) ─ optimiser
 *	copies     wait begun ─ for each group: (copies of a granule, write progress)…, record read
 *	           ─ wait digested ─ write done ─ record copied
 *
 * Of a group that is held (cuda_held.h) there is, in the place of its copies: wait digested ─ pack what has changed ─ write progress.
 *
 * Staged, the copies of the groups lead into the device's spare memory, and second ones lead from there to the arena and
 * tell the progress.
 *
 * Threads as in kernels.h. Every function that calls the runtime makes the device's context current to the thread and
 * puts the former one back, or none. A thread that had no context has none again, so that nothing is set up on a GPU that
 * nobody uses. */
#ifndef CKPT_KERNELS_DEVICE_CUDA_H
#define CKPT_KERNELS_DEVICE_CUDA_H

#include "runtime/cuda_rt.h"
#include "span/span.h"

#include <stdatomic.h>

enum { LOST_MAX = 16 }; /* more are never freed */

struct device {
	struct cuda_rt *rt; /* released with the device */
	int ordinal;
	struct rt_context *context; /* retained */
	struct rt_traits traits;
	size_t pitch_max; /* of a copy of rows */
	struct rt_stream *copies;
	struct rt_event *order; /* restore: the caller's stream before it */
	struct {
		void *memory;
		size_t size;
		unsigned users; /* plans */
	} staging;
	struct cuda_room *room;           /* to gather in (cuda_gather.h); NULL: no plan has any */
	bool crowded;                     /* there was no memory for one, which was said */
	struct cuda_restoring *restoring; /* NULL: nothing was restored yet */
	struct {
		void *memory;
		bool registered;
	} lost[LOST_MAX];
	unsigned nlost;
	bool hung;                /* when something of it ended last: cuda_drain_at_end */
	_Atomic unsigned holders; /* the opener until close, and each plan */
	_Atomic bool closed;
};

extern const struct device_ops device_cuda_ops;

/* Opens a device on this table, which is the device's from now on, also on failure. */
int device_cuda_open(struct cuda_rt *rt, int ordinal, struct device **out, struct err *err);
void device_cuda_release(struct device *dev);

/* What the thread had before cuda_enter. */
struct cuda_former {
	struct rt_context *context;
	int interaction;
};

/* Makes the device's context current to this thread, whose calls then end nobody's recording. Only on 0 is cuda_leave
 * due. */
int cuda_enter(struct device *dev, struct cuda_former *former, struct err *err);
void cuda_leave(struct device *dev, const struct cuda_former *former);

/* Names what the thread does, for a profiler. */
static inline void cuda_range_begin(struct device *dev, const char *name)
{
	if (dev->rt->range_begin)
		dev->rt->range_begin(dev->rt, name);
}

static inline void cuda_range_end(struct device *dev)
{
	if (dev->rt->range_end)
		dev->rt->range_end(dev->rt);
}

/* Converts a code of the runtime where it enters: 0, or -errno with "what: the vendor's text". */
int cuda_check(struct device *dev, int code, const char *what, struct err *err);

/* Waits until the stream has run all that was put on it. CUDA has no wait with a deadline: this one asks with growing
 * pauses. -ETIMEDOUT after the table's patience. */
int cuda_drain(struct device *dev, struct rt_stream *stream, struct err *err);
/* The same for its own stream, where something of the device ends: one that hung then is hardly waited for any more, or
 * who closes a session would wait for as long again for each plan and slot. */
int cuda_drain_at_end(struct device *dev, struct err *err);
/* The same as cuda_drain, until the event has come. */
int cuda_await(struct device *dev, struct rt_event *event, struct err *err);
/* All that was put on the device's own stream has run, or never will. */
bool cuda_is_idle(struct device *dev);

/* The stream by which the device orders what the caller puts on `stream`: that itself, or, where it is of another GPU,
 * the device's default stream, which waits for it from now on. The device is entered. */
int cuda_stand_in(struct device *dev, struct rt_stream *stream, struct rt_stream **own, struct err *err);
/* Whether there is such a stand-in. -EINVAL: one of the two streams records a graph, which stays as it is. */
int cuda_foreign(struct device *dev, struct rt_stream *stream, bool *foreign, struct err *err);

/* Writes to registered memory, on the device's own stream, behind all that is on it. width: 4 or 8. */
int cuda_tell(struct device *dev, void *at, uint64_t value, unsigned width, const char *what, struct err *err);

/* Keeps memory (malloc) that a device which hangs may touch yet: freed with the device if it has come to an end by then.
 * NULL is allowed. */
void cuda_lose(struct device *dev, void *memory, bool registered);

enum cuda_direction { CUDA_TO_ARENA, CUDA_TO_MEMORY };

/* Puts the copy of packed bytes [at, at + len) of the span on the stream. */
int cuda_copy_span(struct device *dev, const struct span *span, char *packed, uint64_t at, uint64_t len,
		   enum cuda_direction direction, struct rt_stream *stream, struct err *err);
/* Of adjacent bytes; the runtime's code. */
int cuda_copy_row(struct device *dev, char *memory, char *packed, size_t n, enum cuda_direction direction,
		  struct rt_stream *stream);
/* How many runtime calls cuda_copy_span needs, counted up to `most`. */
uint64_t cuda_copy_calls(const struct device *dev, const struct span *span, uint64_t most);

int cuda_plan_new(struct device *dev, void *base, const struct span *spans, size_t n, uint64_t granule, unsigned flags,
		  struct plan **out, struct err *err);
void cuda_plan_free(struct plan *plan);
int cuda_plan_rebind(struct plan *plan, const struct span *spans, size_t n, struct err *err);
int cuda_plan_launch(struct plan *plan, void *stream, const struct capture_target *target, unsigned flags,
		     struct err *err);
int cuda_plan_fence(struct plan *plan, uint32_t group, void *stream, uint64_t deadline, uint64_t *bad_leaf,
		    struct err *err);
void cuda_plan_cancel(struct plan *plan);
int cuda_restore(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		 void *stream, uint64_t *bad_leaf, struct err *err);
int cuda_restore_put(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		     void *stream, const void *origin, struct restored_bad *bad, struct err *err);
int cuda_restore_end(struct device *dev, struct restored_bad *bad, struct err *err);
/* Of what the device has of restores. It is entered, if it can be, and about to be freed. idle: it touches nothing any
 * more. */
void cuda_restoring_free(struct device *dev, bool idle);

#endif
