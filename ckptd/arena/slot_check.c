#include "arena/slot_check.h"

#include "base/bytes.h"
#include "base/threads.h"

#include <stdatomic.h>

enum { BATCH = 256, THREADS_MAX = 8 };

/* A slot whose leaves are checked by several threads, a batch each in turns. */
struct check {
	const struct memory *mem;
	uint32_t slot;
	const struct slot_leaves *leaves;
	_Atomic uint64_t next; /* leaf */
	_Atomic uint64_t bad;  /* the lowest damaged one; UINT64_MAX: none was found yet */
};

static void found_bad(struct check *c, uint64_t leaf)
{
	uint64_t lowest = atomic_load(&c->bad);
	while (leaf < lowest && !atomic_compare_exchange_weak(&c->bad, &lowest, leaf))
		;
}

static void check_batch(struct check *c, uint64_t at, uint64_t n)
{
	uint64_t host[BATCH];
	const uint64_t *source = memory_leaves(c->mem, c->slot) + at;
	bool right = true;
	memory_digest(c->mem, c->slot, at, n, host);
	for (uint64_t i = 0; i < n; i++) {
		if (host[i] == source[i])
			continue;
		found_bad(c, at + i);
		right = false;
	}
	if (right && c->leaves->right)
		c->leaves->right(c->leaves->arg, at, n);
}

static void check_batches(void *arg)
{
	struct check *c = arg;
	uint64_t end = c->leaves->first + c->leaves->count, at;
	/* Batches go out in order, and one that was taken is finished: so the lowest damaged leaf is always found. */
	while (atomic_load(&c->bad) == UINT64_MAX && (at = atomic_fetch_add(&c->next, BATCH)) < end)
		check_batch(c, at, min_u64(BATCH, end - at));
}

bool slot_check(const struct memory *mem, uint32_t slot, uint64_t *bad)
{
	return slot_check_leaves(mem, slot, &(struct slot_leaves){.count = mem->layout.nleaves}, bad);
}

bool slot_check_leaves(const struct memory *mem, uint32_t slot, const struct slot_leaves *leaves, uint64_t *bad)
{
	struct check c = {.mem = mem, .slot = slot, .leaves = leaves, .next = leaves->first, .bad = UINT64_MAX};
	unsigned most = (unsigned)min_u64(div_up(leaves->count, BATCH), THREADS_MAX);
	threads_run(threads_default(most), check_batches, &c);
	if (c.bad == UINT64_MAX)
		return true;
	*bad = c.bad;
	return false;
}
