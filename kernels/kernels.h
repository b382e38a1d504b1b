/* The device layer: where state lives and how it is copied and digested there, behind one C ABI. Implementations: host
 * (device_host.c, a worker thread) and CUDA (device_cuda.c, streams). Callers see no type of any vendor.
 *
 * A device captures "plans": a list of spans (device memory → arena), built once per slot and launched many times. A
 * launch returns at once; progress and completion are told through a counter in shared memory that the device itself
 * writes, and through fence and wait. Errors are 0 or -errno; the sentence is in the struct err.
 *
 * Streams: where `stream` is of another GPU than the device, the default stream of the device's GPU stands in for it: a launch, a restore has that
 * wait for what is on `stream`, and digests there; a fence has both wait. NULL: the default stream of the device's GPU.
 *
 * Threads: plan_launch, plan_cancel, fence and idle may be called by one thread while another waits; the rest by one thread at a time.
 * Lifetimes: a plan and its device may be released in either order. Neither plan_free nor close returns while the
 * device may still touch the plan's sources, its arena or its target: what is in flight is cancelled or awaited (a
 * device that answers nothing is given up after a while, with a line in the log). */
#ifndef CKPT_KERNELS_H
#define CKPT_KERNELS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICE_HOST = -1 };

/* One rectangular copy between the user's memory and packed bytes in the arena: an N-dimensional loop of rows. The
 * arena side is packed; the memory side has a stride in bytes per dimension. count[0] is the outermost. ndim 0: one
 * row. */
enum { SPAN_NDIM_MAX = 8 };
struct span {
	void *memory;       /* the first row on the device */
	uint64_t arena_at;  /* byte offset from the arena base handed to plan_new */
	uint64_t row_bytes; /* contiguous bytes of a row on both sides */
	uint32_t ndim;      /* loops around the row */
	uint64_t count[SPAN_NDIM_MAX];
	int64_t stride[SPAN_NDIM_MAX];
	uint64_t first_leaf; /* index into the leaf digest table of this span's first leaf; a span starts a piece */
	/* A part of the packed image, for pieces that are no box in strided memory: `skip` bytes are left out at its
	 * front and `take` follow (0: all the rest). Everything else (arena_at, leaves, span_bytes, `at`) counts from
	 * the part's start. */
	uint64_t skip, take;
	/* Spans of a group stand together; a group can be fenced by itself. Below PLAN_GROUPS_MAX; or SPAN_WITNESS, behind all others: it is
	 * digested with them, and not copied (arena_at does not matter). */
	uint32_t group;
};
enum { PLAN_GROUPS_MAX = 64 };
#define SPAN_WITNESS UINT32_MAX
#define FENCE_ALL UINT32_MAX

/* Bytes in the arena. The span was checked (plan_new and restore do so: -EINVAL, -EOVERFLOW). */
uint64_t span_bytes(const struct span *span);

/* Bytes [at, at + len) of a span's packed image, len > 0, as a span of its own; `at` a multiple of a leaf. */
struct span span_part(const struct span *span, uint64_t at, uint64_t len);

struct device; /* opaque */
struct plan;   /* opaque; bound to a device, an arena range and a list of spans */

/* Where a capture tells how far it is; all in shared memory (the slot's record in the arena's head). A launch begins by
 * setting *progress and *done to 0. */
struct capture_target {
	_Atomic uint64_t *progress; /* bytes of the plan that have arrived, in order of the spans; monotonic */
	/* Becomes 1 after the last byte and all source digests, or the negated errno on failure. */
	_Atomic uint32_t *done;
	uint64_t *leaves; /* source digests, one per leaf of the plan: born where the state lives; NULL: none */
	uint64_t *before; /* strict on the host: room for as many digests, taken inside the launch before it returns */
	/* What the arena holds has the digests that stand in `leaves`: where a leaf turns out to have the same one again, the device may
	 * leave its copy out. It is digested all the same, and counts as arrived. */
	bool held;
	/* held: the digests of the newest earlier capture that is complete, by which a device guesses what has changed since then; NULL:
	 * there is none. A guess that is wrong costs time alone. */
	const uint64_t *newest;
};

/* Strict: a mutation between the launch and the end of the capture is an error of the launch. The host needs `before`
 * for that. A device that digests on the caller's stream at the time of the launch has this property by its leaves
 * alone. */
enum capture_flags { CAPTURE_STRICT = 1 };

/* Staged: the state is first copied within the device, to spare memory of it, and from there to the arena: the fence waits for the
 * first copy alone, some hundred times shorter. The memory is shared by the plans of a device, which take turns. -ENOMEM where there is
 * not as much, -EOPNOTSUPP on the host. */
enum plan_flags { PLAN_STAGED = 1 };

struct device_ops {
	const char *name; /* "host", "cuda" */

	/* ordinal: DEVICE_HOST or a CUDA ordinal. -ENODEV with the reason when there is none. */
	int (*open)(int ordinal, struct device **out, struct err *err);
	void (*close)(struct device *dev);
	/* Whether launches write source digests. false: target.leaves must be NULL and strict mode is refused
	 * (-EOPNOTSUPP); whoever reads the arena must be told that there is nothing to compare it with. */
	bool (*digests)(const struct device *dev);
	/* Waits until nothing that was launched reads or writes memory any more, whatever it has come to. -ETIMEDOUT; any other error: the
	 * device is dead, and touches nothing. */
	int (*idle)(struct device *dev, uint64_t deadline, struct err *err);

	/* Makes the arena reachable for fast copies (pinned on CUDA, once for all devices of the process; on the host its pages are touched
	 * in the background). Once per mapping and device; detached before it is unmapped. */
	int (*arena_attach)(struct device *dev, void *base, size_t size, struct err *err);
	void (*arena_detach)(struct device *dev, void *base);

	/* Builds a capture plan. The spans are copied. base: the slot's data in the arena. granule: bytes between two
	 * steps of the progress counter, where it is not of a group that is held. flags: plan_flags. */
	int (*plan_new)(struct device *dev, void *base, const struct span *spans, size_t n, uint64_t granule,
			unsigned flags, struct plan **out, struct err *err);
	void (*plan_free)(struct plan *plan);

	/* Starts the capture, ordered after the work that is already on `stream`. Returns at once (strict on the host:
	 * after one read of the state). A plan runs one launch at a time: -EBUSY. After an error nothing of this launch
	 * runs, and the target may say anything. */
	int (*plan_launch)(struct plan *plan, void *stream, const struct capture_target *target, unsigned flags,
			   struct err *err);
	/* Makes `stream` (host: the calling thread, until the deadline) wait until the launch has read the sources of the group
	 * (FENCE_ALL: of all; the host waits for all in any case). 0; -ETIMEDOUT; -EBADMSG: strict mode saw a mutation, *bad_leaf says in which leaf; -EIO: the copy failed;
	 * -ECANCELED: the device was closed; -EINVAL: nothing was launched. May be asked again: the answer stays until
	 * the next launch. bad_leaf may be NULL. */
	int (*plan_fence)(struct plan *plan, uint32_t group, void *stream, uint64_t deadline, uint64_t *bad_leaf,
			  struct err *err);
	/* Asks a launch that runs to end early; plan_fence then says -ECANCELED, or what it had come to. On a device what is on
	 * the stream cannot be taken back: it runs on. May be called while another thread waits in plan_fence. */
	void (*plan_cancel)(struct plan *plan);

	/* Copies packed arena bytes into device memory for each span (base as in plan_new) and, where leaves is not
	 * NULL, digests what arrived and compares: -EBADMSG with *bad_leaf (may be NULL). Returns when everything has
	 * arrived; after an error the memory is a mixture. Ordered after `stream`. The leaves are those of whole spans:
	 * for parts of a captured piece that do not begin and end at its leaves, check the arena first, pass NULL. */
	int (*restore)(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		       void *stream, uint64_t *bad_leaf, struct err *err);
};

extern const struct device_ops device_host;
/* NULL where the build has no CUDA toolkit. */
const struct device_ops *device_cuda(void);

/* CPU references of the kernels; bit-identical to their device versions. */

/* Packs a strided span into dst (packed), from packed byte `at` on, `len` bytes. */
void span_pack(const struct span *span, void *dst, uint64_t at, uint64_t len);
/* The inverse: writes packed bytes src[0..len) of the span's packed image at `at` into its memory. */
void span_unpack(const struct span *span, const void *src, uint64_t at, uint64_t len);

#endif
