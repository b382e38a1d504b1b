/* The calls of a CUDA runtime that the device layer needs, as a table with plain types: the real runtime (cuda_rt_real.c,
 * where the toolkit is) or the fake of the tests. What CUDA guarantees and both must keep: operations of one stream run
 * in order, each seeing the memory as the one before left it. Different streams are ordered by events alone. A value is
 * written after all earlier operations of its stream are visible to the host.
 *
 * Calls return 0 or the vendor's code (positive); errno_of and text_of translate it at once where it enters. */
#ifndef CKPT_KERNELS_CUDA_RT_H
#define CKPT_KERNELS_CUDA_RT_H

#include "gpu/gpu_kernels.h"
#include "kernels.h"

struct rt_stream; /* the vendor's handles behind types of our own; a NULL stream is the default stream */
struct rt_event;
struct rt_context; /* of a GPU: what is current to a thread */

/* event_query and stream_query: not there yet. No vendor's code is negative. */
enum { RT_NOT_READY = -1 };
/* interaction: no call of this thread ends what any stream records, unless it is about that stream. */
enum { RT_RELAXED = 2 };

struct rt_traits {
	bool writes;      /* write64 and write32 can be used */
	int major, minor; /* its compute capability */
};

struct cuda_rt {
	/* ns that a synchronous call of the device layer waits for a device that makes no progress */
	uint64_t patience;
	uint64_t gather_most; /* bytes of the device in which captures gather what is small */
	size_t register_max;  /* bytes, whole pages, that host_register takes at once */
	void (*release)(struct cuda_rt *rt);
	int (*errno_of)(struct cuda_rt *rt, int code); /* a negative errno */
	const char *(*text_of)(struct cuda_rt *rt, int code);

	int (*count)(struct cuda_rt *rt, int *devices);
	/* The GPU's primary context, which is made if there is none. It lives until the last release. */
	int (*context_retain)(struct cuda_rt *rt, int ordinal, struct rt_context **context);
	int (*context_release)(struct cuda_rt *rt, int ordinal);
	/* Of the calling thread; NULL: none. Streams and events belong to the context that was current when they were
	 * made. All calls below need one: without it the runtime makes one on GPU 0, of half a gigabyte. */
	int (*current)(struct cuda_rt *rt, struct rt_context **context);
	int (*make_current)(struct cuda_rt *rt, struct rt_context *context);
	/* Exchanges how calls of this thread get on with streams that record a graph: by the runtime's default a question
	 * about an event, or memory that is pinned, ends a recording of any thread. */
	int (*interaction)(struct cuda_rt *rt, int *mode);
	/* Loads the kernels of the current device. */
	int (*load)(struct cuda_rt *rt);
	int (*traits)(struct cuda_rt *rt, int ordinal, struct rt_traits *traits);
	/* The most that copy2d of the current device takes as a pitch. */
	int (*pitch_max)(struct cuda_rt *rt, size_t *bytes);
	/* Pins memory, which was not, for all devices, and maps it at its own address. Nothing copies to or from it when
	 * it is unregistered. */
	int (*host_register)(struct cuda_rt *rt, void *base, size_t size);
	int (*host_unregister)(struct cuda_rt *rt, void *base);

	/* Of the greatest priority, so that it shares no hardware queue with the training's: what it waits for would hold
	 * them up, and they it. Does not synchronise with the default stream. */
	int (*stream_create)(struct cuda_rt *rt, struct rt_stream **stream);
	int (*stream_destroy)(struct cuda_rt *rt, struct rt_stream *stream);
	int (*stream_query)(struct cuda_rt *rt, struct rt_stream *stream);
	/* Whose it is. NULL: this driver cannot tell. */
	int (*stream_device)(struct cuda_rt *rt, struct rt_stream *stream, int *ordinal);
	int (*stream_context)(struct cuda_rt *rt, struct rt_stream *stream, struct rt_context **context);
	/* Whether what is put on it is recorded; NULL: or cannot be used, because a stream that synchronises with it
	 * records. */
	int (*stream_records)(struct cuda_rt *rt, struct rt_stream *stream, bool *records);
	/* Both may be of any device. */
	int (*stream_wait)(struct cuda_rt *rt, struct rt_stream *stream, struct rt_event *event);
	int (*event_create)(struct cuda_rt *rt, struct rt_event **event);
	int (*event_destroy)(struct cuda_rt *rt, struct rt_event *event);
	/* Both of the same device. */
	int (*event_record)(struct cuda_rt *rt, struct rt_event *event, struct rt_stream *stream);
	int (*event_query)(struct cuda_rt *rt, struct rt_event *event);

	/* Either side may be host or device memory. */
	int (*copy)(struct cuda_rt *rt, void *dst, const void *src, size_t n, struct rt_stream *stream);
	int (*copy2d)(struct cuda_rt *rt, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
		      size_t row_bytes, size_t rows,
		      struct rt_stream *stream); /* pitches from row_bytes to pitch_max */
	/* Into registered memory; where the device has no such operation, tell does it (width 4 or 8), with a kernel. */
	int (*write64)(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint64_t value);
	int (*write32)(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint32_t value);

	int (*tell)(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint64_t value, unsigned width);

	/* Many copies at once, none of which need be done before another. NULL: this runtime, or its driver, has no such
	 * call. */
	int (*copy_batch)(struct cuda_rt *rt, void **dst, const void **src, const size_t *bytes, size_t n,
			  struct rt_stream *stream);

	/* Memory of the current device, there for what is put on the stream behind the call; freed when what is before it
	 * is done. */
	int (*alloc)(struct cuda_rt *rt, void **out, size_t size, struct rt_stream *stream);
	int (*free)(struct cuda_rt *rt, void *memory, struct rt_stream *stream);

	/* The allocation that this memory of the current device stands in, which no copy may leave. *size 0: the driver
	 * knows of none. */
	int (*allocation)(struct cuda_rt *rt, const void *memory, void **base, size_t *size);

	/* The kernels of gpu_kernels.h; leaves and base are registered memory or the device's, changed is the device's.
	 * wide: by all of the device, to its own memory; else by as little as fills the bus. All NULL: this runtime has
	 * none, and the device says that it makes no source digests. */
	int (*digest)(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		      uint64_t units, uint64_t *leaves, uint8_t *changed);
	int (*pack)(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		    uint64_t units, const uint8_t *changed, void *base, bool wide);
	int (*unpack)(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		      uint64_t units, const void *base);

	/* Names what the thread does until range_end, for a profiler. NULL: nobody looks. */
	void (*range_begin)(struct cuda_rt *rt, const char *name);
	void (*range_end)(struct cuda_rt *rt);
};

/* The real runtime; -ENODEV with the reason where there is no driver or no GPU. Released by rt->release. */
int cuda_rt_real(struct cuda_rt **out, struct err *err);

#endif
