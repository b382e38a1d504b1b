/* Whether what stands in a slot is what was captured or restored: every leaf digested again, by all processors. */
#ifndef CKPTD_ARENA_SLOT_CHECK_H
#define CKPTD_ARENA_SLOT_CHECK_H

#include "arena/memory.h"

/* The slot is held, nobody writes to it. false: *bad is the lowest leaf that does not match its digest. On a worker. */
bool slot_check(const struct memory *mem, uint32_t slot, uint64_t *bad);
/* Some of its leaves. right (may be NULL) is told of those that match, each once, from several threads. */
struct slot_leaves {
	uint64_t first, count;
	void (*right)(void *arg, uint64_t first, uint64_t count);
	void *arg;
};
bool slot_check_leaves(const struct memory *mem, uint32_t slot, const struct slot_leaves *leaves, uint64_t *bad);

#endif
