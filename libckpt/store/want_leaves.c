#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/threads.h"
#include "format/digest.h"
#include "store/plan.h"

enum { BATCH = 64 }; /* leaves that a thread takes at a time */

/* What is still to be digested: from a leaf of a destination on. */
struct rest {
	const struct restore_plan *plan;
	const struct restore_options *opts;
	pthread_mutex_t lock; /* guards what follows */
	size_t want;
	uint64_t leaf;
};

struct batch {
	size_t want;
	uint64_t from, bytes; /* of its data */
};

static uint64_t want_bytes(const struct want *want)
{
	return region_volume(&want->shape, &want->region) * dtype_size(want->dtype);
}

static bool digested_when_read(const struct restore_plan *plan, size_t want)
{
	return !plan->wants[want].leaves || plan->whole[want];
}

static bool take(struct rest *rest, struct batch *batch)
{
	LOCK_SCOPE(&rest->lock);
	for (; rest->want < rest->plan->nwants; rest->want++, rest->leaf = 0) {
		if (digested_when_read(rest->plan, rest->want))
			continue;
		const struct want *want = &rest->plan->wants[rest->want];
		uint64_t from = rest->leaf * LEAF_SIZE, bytes = want_bytes(want);
		if (from >= bytes)
			continue;
		*batch = (struct batch){rest->want, from, min_u64(bytes - from, (uint64_t)BATCH * LEAF_SIZE)};
		rest->leaf += BATCH;
		return true;
	}
	return false;
}

static void work(void *arg)
{
	struct rest *rest = arg;
	struct batch b;
	while (take(rest, &b)) {
		const struct want *want = &rest->plan->wants[b.want];
		digest_leaves((const uint8_t *)want->data + b.from, b.bytes, want->leaves + b.from / LEAF_SIZE);
		if (rest->opts->arrived)
			rest->opts->arrived(rest->opts->arg, b.want, b.from / LEAF_SIZE, leaf_count(b.bytes));
	}
}

void want_leaves(const struct restore_plan *plan, const struct restore_options *opts, unsigned nthreads)
{
	struct rest rest = {.plan = plan, .opts = opts};
	while (rest.want < plan->nwants && digested_when_read(plan, rest.want))
		rest.want++;
	if (rest.want == plan->nwants)
		return;
	pthread_mutex_init(&rest.lock, NULL);
	threads_run(nthreads, work, &rest);
	pthread_mutex_destroy(&rest.lock);
}
