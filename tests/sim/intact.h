/* What a rank relies on when it leaves out of a capture what a slot holds already. */
#ifndef CKPT_SIM_INTACT_H
#define CKPT_SIM_INTACT_H

#include "arena/memory.h"

/* By a rank that has just taken the slot: whether the daemon called it intact. Then every byte in it matches its leaf table. */
bool intact_take(const struct memory *mem, uint32_t slot);

#endif
