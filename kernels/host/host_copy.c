#include "host_copy.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/threads.h"
#include "format/tensor/digest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Walks the leaves of a list in the order of the spans. */
struct leaf {
	const struct span *span;
	uint64_t at, len; /* within the span */
	uint64_t index;   /* in the table of digests */
};

struct leaf_walk {
	const struct span_list *list;
	size_t span;
	uint64_t at;
};

static bool next_leaf(struct leaf_walk *walk, struct leaf *leaf)
{
	for (; walk->span < walk->list->nall; walk->span++, walk->at = 0) {
		const struct span *span = &walk->list->spans[walk->span];
		uint64_t bytes = span_bytes(span);
		if (walk->at >= bytes)
			continue;
		*leaf = (struct leaf){.span = span,
				      .at = walk->at,
				      .len = min_u64(bytes - walk->at, LEAF_SIZE),
				      .index = span->first_leaf + walk->at / LEAF_SIZE};
		walk->at += leaf->len;
		return true;
	}
	return false;
}

/* The leaf's packed bytes: in place where the memory is packed, else gathered into the bounce buffer. */
static const void *packed_leaf(const struct leaf *leaf, void *bounce)
{
	if (!leaf->span->ndim)
		return (const char *)leaf->span->memory + leaf->at;
	span_pack(leaf->span, bounce, leaf->at, leaf->len);
	return bounce;
}

static void capture_leaf(const struct leaf *leaf, char *base, const struct capture_target *target, void *bounce)
{
	char *dst = base + leaf->span->arena_at + leaf->at;
	if (!target->leaves) {
		span_pack(leaf->span, dst, leaf->at, leaf->len);
		return;
	}
	const void *src = packed_leaf(leaf, bounce);
	uint64_t digest = digest_leaf(src, leaf->len);
	if (target->held && digest == target->leaves[leaf->index])
		return;
	target->leaves[leaf->index] = digest;
	memcpy(dst, src, leaf->len);
}

int host_capture(const struct span_list *list, void *base, uint64_t granule, const struct capture_target *target,
		 void *bounce, const _Atomic bool *cancel)
{
	struct leaf_walk walk = {.list = list};
	struct leaf leaf;
	uint64_t arrived = 0, told = 0;
	while (next_leaf(&walk, &leaf)) {
		if (atomic_load_explicit(cancel, memory_order_relaxed))
			return -ECANCELED;
		if (leaf.span->group == SPAN_WITNESS) {
			if (target->leaves)
				target->leaves[leaf.index] = digest_leaf(packed_leaf(&leaf, bounce), leaf.len);
			continue;
		}
		capture_leaf(&leaf, base, target, bounce);
		arrived += leaf.len;
		if (arrived - told < granule && arrived < list->bytes)
			continue;
		atomic_store_explicit(target->progress, arrived, memory_order_release);
		told = arrived;
	}
	return 0;
}

void host_digest(const struct span_list *list, uint64_t *digests, void *bounce)
{
	struct leaf_walk walk = {.list = list};
	struct leaf leaf;
	while (next_leaf(&walk, &leaf))
		digests[leaf.index] = digest_leaf(packed_leaf(&leaf, bounce), leaf.len);
}

static int bad(uint64_t *bad_leaf, uint64_t index)
{
	if (bad_leaf)
		*bad_leaf = index;
	return -EBADMSG;
}

int host_compare(const struct span_list *list, const uint64_t *digests, uint64_t *bad_leaf, void *bounce,
		 const _Atomic bool *cancel)
{
	struct leaf_walk walk = {.list = list};
	struct leaf leaf;
	while (next_leaf(&walk, &leaf)) {
		if (atomic_load_explicit(cancel, memory_order_relaxed))
			return -ECANCELED;
		if (digest_leaf(packed_leaf(&leaf, bounce), leaf.len) != digests[leaf.index])
			return bad(bad_leaf, leaf.index);
	}
	return 0;
}

/* Leaves that a thread of a restore takes at a time: 1 MiB. */
enum { SHARE = 16 };

struct restore_share {
	const char *base;
	const uint64_t *leaves;
	char *bounce;
	pthread_mutex_t lock; /* guards what follows */
	struct leaf_walk walk;
	unsigned nthreads; /* that have begun */
	bool bad;
	uint64_t bad_leaf; /* the lowest of those found */
};

static void found_bad(struct restore_share *share, uint64_t index)
{
	LOCK_SCOPE(&share->lock);
	if (!share->bad || index < share->bad_leaf)
		share->bad_leaf = index;
	share->bad = true;
}

/* Shares go out in order, and one that was taken is finished: so the lowest damaged leaf is always found. */
static unsigned take_share(struct restore_share *share, struct leaf *leaves)
{
	unsigned n = 0;
	LOCK_SCOPE(&share->lock);
	while (n < SHARE && !share->bad && next_leaf(&share->walk, &leaves[n]))
		n++;
	return n;
}

static char *take_bounce(struct restore_share *share)
{
	LOCK_SCOPE(&share->lock);
	return share->bounce + (size_t)share->nthreads++ * LEAF_SIZE;
}

static void restore_shares(void *arg)
{
	struct restore_share *share = arg;
	struct leaf leaves[SHARE];
	char *bounce = take_bounce(share);
	for (unsigned n; (n = take_share(share, leaves));) {
		for (unsigned i = 0; i < n; i++) {
			const struct leaf *l = &leaves[i];
			span_unpack(l->span, share->base + l->span->arena_at + l->at, l->at, l->len);
			if (share->leaves && digest_leaf(packed_leaf(l, bounce), l->len) != share->leaves[l->index])
				found_bad(share, l->index);
		}
	}
}

int host_restore(const struct span_list *list, const void *base, const uint64_t *leaves, uint64_t *bad_leaf,
		 void *bounce, unsigned nthreads)
{
	struct restore_share share = {.base = base, .leaves = leaves, .bounce = bounce, .walk = {.list = list}};
	pthread_mutex_init(&share.lock, NULL);
	threads_run(nthreads, restore_shares, &share);
	pthread_mutex_destroy(&share.lock);
	return share.bad ? bad(bad_leaf, share.bad_leaf) : 0;
}
