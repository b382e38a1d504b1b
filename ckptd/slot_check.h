/* Whether what stands in a slot is what was captured or restored: every leaf digested again, by all processors. */
#ifndef CKPTD_SLOT_CHECK_H
#define CKPTD_SLOT_CHECK_H

#include "memory.h"

/* The slot is held, nobody writes to it. false: *bad is the lowest leaf that does not match its digest. On a worker. */
bool slot_check(const struct memory *mem, uint32_t slot, uint64_t *bad);

#endif
