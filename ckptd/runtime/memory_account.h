/* What of memory-limit is in use, in bytes. */
#ifndef CKPTD_RUNTIME_MEMORY_ACCOUNT_H
#define CKPTD_RUNTIME_MEMORY_ACCOUNT_H

#include <stdint.h>

struct memory_account {
	uint64_t arenas;
	uint64_t copies; /* held for ranks of other nodes */
	uint64_t tables; /* what was registered, with all that is made of it */
};

static inline uint64_t memory_in_use(const struct memory_account *m)
{
	return m->arenas + m->copies + m->tables;
}

#endif
