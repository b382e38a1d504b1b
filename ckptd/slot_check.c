#include "slot_check.h"

#include "base/bytes.h"
#include "base/threads.h"

#include <stdatomic.h>

enum { BATCH = 256, THREADS_MAX = 8 };

/* A slot whose leaves are checked by several threads, a batch each in turns. */
struct check {
	const struct memory *mem;
	uint32_t slot;
	_Atomic uint64_t next; /* leaf */
	_Atomic uint64_t bad;  /* the lowest damaged one; UINT64_MAX: none was found yet */
};

static void found_bad(struct check *c, uint64_t leaf)
{
	uint64_t lowest = atomic_load(&c->bad);
	while (leaf < lowest && !atomic_compare_exchange_weak(&c->bad, &lowest, leaf))
		;
}

static void check_batches(void *arg)
{
	struct check *c = arg;
	uint64_t host[BATCH], nleaves = c->mem->layout.nleaves, at;
	const uint64_t *source = memory_leaves(c->mem, c->slot);
	/* Batches go out in order, and one that was taken is finished: so the lowest damaged leaf is always found. */
	while (atomic_load(&c->bad) == UINT64_MAX && (at = atomic_fetch_add(&c->next, BATCH)) < nleaves) {
		uint64_t n = min_u64(BATCH, nleaves - at);
		memory_digest(c->mem, c->slot, at, n, host);
		for (uint64_t i = 0; i < n; i++)
			if (host[i] != source[at + i])
				found_bad(c, at + i);
	}
}

bool slot_check(const struct memory *mem, uint32_t slot, uint64_t *bad)
{
	struct check c = {.mem = mem, .slot = slot, .bad = UINT64_MAX};
	unsigned most = (unsigned)min_u64(div_up(mem->layout.nleaves, BATCH), THREADS_MAX);
	threads_run(threads_default(most), check_batches, &c);
	if (c.bad == UINT64_MAX)
		return true;
	*bad = c.bad;
	return false;
}
