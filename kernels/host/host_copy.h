/* The work of the host device, leaf by leaf: plain functions on the calling thread, but for host_restore. */
#ifndef CKPT_KERNELS_HOST_COPY_H
#define CKPT_KERNELS_HOST_COPY_H

#include "span/span.h"

/* Copies all spans into the arena, but for leaves that it holds. Every leaf of the source is digested before its bytes
 * reach the arena, so that what is damaged or torn on the way differs from its digest. Witnesses are digested after them.
 * bounce: LEAF_SIZE bytes. Stops within a leaf once *cancel is set: -ECANCELED. */
int host_capture(const struct span_list *list, void *base, uint64_t granule, const struct capture_target *target,
		 void *bounce, const _Atomic bool *cancel);

/* Digests all sources into digests. */
void host_digest(const struct span_list *list, uint64_t *digests, void *bounce);

/* Digests all sources again and compares: -EBADMSG and *bad_leaf for the first leaf that differs; -ECANCELED. */
int host_compare(const struct span_list *list, const uint64_t *digests, uint64_t *bad_leaf, void *bounce,
		 const _Atomic bool *cancel);

/* Copies packed arena bytes into the spans' memory; with leaves, digests each leaf as it stands there, right after its
 * copy: -EBADMSG and the lowest damaged leaf. Shared out over nthreads threads; bounce: LEAF_SIZE bytes
 * for each. */
int host_restore(const struct span_list *list, const void *base, const uint64_t *leaves, uint64_t *bad_leaf,
		 void *bounce, unsigned nthreads);

#endif
