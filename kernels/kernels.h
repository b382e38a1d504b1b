/* The device layer: where state lives, and how it is copied and digested there, behind one C ABI.
 *
 * Implementations: the host (device_host.c, a worker thread) and CUDA (device_cuda.c, streams). Callers see no type of a
 * vendor.
 *
 * A device captures plans. A plan is a list of spans (device memory → arena), built once per slot and launched many times. A
 * launch returns at once. The device itself writes progress and completion to counters in shared memory; plan_fence and
 * idle wait. Errors are 0 or -errno, with the sentence in struct err.
 *
 * Streams. NULL is the default stream of the device's GPU. If `stream` belongs to another GPU, the default stream of the
 * device's GPU stands in for it. For a launch or a restore, that stream waits for what is on `stream`, and digests there.
 * For a fence, both wait.
 *
 * Threads. One thread may call plan_rebind, plan_move, plan_launch, plan_cancel, plan_fence and idle while another waits.
 * The rest is called by one thread at a time.
 *
 * Lifetimes. A plan and its device may be released in either order. plan_free and close return when the device no longer
 * touches the plan's sources, its arena or its target: they cancel or await what is in flight. A device that does not
 * answer is given up after a while, with a line in the log. */
#ifndef CKPT_KERNELS_H
#define CKPT_KERNELS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICE_HOST = -1 };

/* One rectangular copy between the user's memory and packed bytes in the arena: a loop of rows in ndim dimensions. The
 * arena side is packed. The memory side has a stride in bytes per dimension. count[0] is the outermost. ndim 0: one row. */
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
	 * front, and `take` follow (0: all the rest). All else (arena_at, leaves, span_bytes, `at`) counts from the start
	 * of the part. */
	uint64_t skip, take;
	/* Spans of a group stand together; a group can be fenced by itself. Below PLAN_GROUPS_MAX. Or SPAN_WITNESS,
	 * behind all others: the span is digested with them and not copied, and arena_at does not matter. */
	uint32_t group;
};
enum { PLAN_GROUPS_MAX = 64 };
#define SPAN_WITNESS UINT32_MAX
#define FENCE_ALL UINT32_MAX

/* Bytes in the arena. The span must be checked: plan_new and restore do so (-EINVAL, -EOVERFLOW). */
uint64_t span_bytes(const struct span *span);

/* Bytes [at, at + len) of a span's packed image, len > 0, as a span of its own; `at` a multiple of a leaf. */
struct span span_part(const struct span *span, uint64_t at, uint64_t len);

/* What damage a restore has found: in which call's state (as the caller named it), and which leaf; UINT64_MAX: none. */
struct restored_bad {
	const void *origin;
	uint64_t leaf;
};

struct device; /* opaque */
struct plan;   /* opaque; bound to a device, an arena range and a list of spans */

/* Where a capture tells how far it is: all in shared memory, in the slot's record of the arena's head. A launch first sets
 * *progress and *done to 0. */
struct capture_target {
	_Atomic uint64_t *progress; /* bytes of the plan that have arrived, in order of the spans; monotonic */
	/* Becomes 1 after the last byte and all source digests, or the negated errno on failure. */
	_Atomic uint32_t *done;
	uint64_t *leaves; /* source digests, one per leaf of the plan: born where the state lives; NULL: none */
	uint64_t *before; /* strict on the host: room for as many digests, taken inside the launch before it returns */
	/* true: the arena holds bytes whose digests stand in `leaves`. The device may leave out the copy of a leaf that
	 * has the same digest again. The leaf is still digested, and counts as arrived. */
	bool held;
	/* With held: the digests of the newest earlier complete capture, or NULL. The device guesses from them what has
	 * changed since. A wrong guess only costs time. */
	const uint64_t *newest;
};

/* Strict: a change of the state between the launch and the end of the capture is an error of the launch. The host needs
 * `before` for that. A device that digests on the caller's stream at the launch has this property by its leaves alone. */
enum capture_flags { CAPTURE_STRICT = 1 };

/* Staged: the state is first copied within the device, to spare memory of it, and from there to the arena. The fence
 * waits for the first copy only. The plans of a device share the memory and take turns. -ENOMEM:
 * there is not as much; -EOPNOTSUPP on the host. */
enum plan_flags { PLAN_STAGED = 1 };

struct device_ops {
	const char *name; /* "host", "cuda" */

	/* ordinal: DEVICE_HOST or a CUDA ordinal. -ENODEV: there is none, with the reason. */
	int (*open)(int ordinal, struct device **out, struct err *err);
	void (*close)(struct device *dev);
	/* Whether launches write source digests. If false, target.leaves must be NULL, strict mode is refused
	 * (-EOPNOTSUPP), and readers of the arena must be told that there is nothing to compare it with. */
	bool (*digests)(const struct device *dev);
	/* Waits until nothing that was launched reads or writes memory any more, whatever became of it. -ETIMEDOUT: it
	 * still does; any other error: the device is dead, and touches nothing. */
	int (*idle)(struct device *dev, uint64_t deadline, struct err *err);

	/* Makes the arena reachable for fast copies. On CUDA it is pinned, once for all devices of the process; on the
	 * host its pages are touched in the background. Once per mapping and device; detach before you unmap. */
	int (*arena_attach)(struct device *dev, void *base, size_t size, struct err *err);
	void (*arena_detach)(struct device *dev, void *base);

	/* Builds a capture plan. The spans are copied.
	 *	base     the slot's data in the arena
	 *	granule  bytes between two steps of the progress counter; not for a group that is held
	 *	flags    plan_flags */
	int (*plan_new)(struct device *dev, void *base, const struct span *spans, size_t n, uint64_t granule,
			unsigned flags, struct plan **out, struct err *err);
	void (*plan_free)(struct plan *plan);
	/* From the next launch on the same spans stand at other addresses: `memory` may differ, nothing else. After an
	 * error the plan is as it was. -EBUSY: a launch of this plan still runs. */
	int (*plan_rebind)(struct plan *plan, const struct span *spans, size_t n, struct err *err);
	/* NULL, or the same for some of them: which[i] is the place of spans[i] among the plan's. What it costs does not
	 * depend on the others. */
	int (*plan_move)(struct plan *plan, const struct span *spans, const uint32_t *which, size_t n, struct err *err);

	/* Starts the capture, ordered after the work that is already on `stream`. Returns at once (strict on the host:
	 * after one read of the state). -EBUSY: a launch of this plan still runs. After an error nothing of this launch
	 * runs, and the target may say anything. */
	int (*plan_launch)(struct plan *plan, void *stream, const struct capture_target *target, unsigned flags,
			   struct err *err);
	/* Makes `stream` wait until the launch has read the sources of the group (FENCE_ALL: of all). On the host the
	 * calling thread waits, until the deadline, and for all groups in any case. The answer stays until the next
	 * launch: you may ask again. bad_leaf may be NULL.
	 *	-ETIMEDOUT  the deadline passed, the sources are still read
	 *	-EBADMSG    strict mode saw a change; *bad_leaf says in which leaf
	 *	-EIO        the copy failed
	 *	-ECANCELED  the launch was cancelled, or the device was closed
	 *	-EINVAL     nothing was launched */
	int (*plan_fence)(struct plan *plan, uint32_t group, void *stream, uint64_t deadline, uint64_t *bad_leaf,
			  struct err *err);
	/* Asks a launch that runs to end early. plan_fence then returns -ECANCELED, or what had become of it. On a
	 * device, what is on the stream runs on. May be called while another thread waits in plan_fence. */
	void (*plan_cancel)(struct plan *plan);

	/* Copies packed arena bytes into device memory for each span (base as in plan_new), ordered after `stream`.
	 * Returns when everything has arrived. After an error the memory is a mixture. If leaves is not NULL, digests
	 * what arrived and compares: -EBADMSG with *bad_leaf, which may be NULL. The leaves are those of whole spans. For
	 * parts of a captured piece that do not begin and end at its leaves, check the arena first and pass NULL. */
	int (*restore)(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		       void *stream, uint64_t *bad_leaf, struct err *err);

	/* NULL, or a restore in parts, which come one after the other without a wait for the one before. restore_put
	 * returns when the part is under way; its memory, arena and leaves are used until restore_end has returned. Both
	 * say what has been found meanwhile of all parts. After an error nothing is under way, and nothing is known of
	 * the parts before. A restore between ends them, too. */
	int (*restore_put)(struct device *dev, const void *base, const struct span *spans, size_t n,
			   const uint64_t *leaves, void *stream, const void *origin, struct restored_bad *bad,
			   struct err *err);
	/* Returns when everything has arrived and was compared. */
	int (*restore_end)(struct device *dev, struct restored_bad *bad, struct err *err);
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
