/* The clock of the simulator: it moves when it is told to. */
#include "base/clock.h"
#include "world.h"

static uint64_t now = CLOCK_NS_PER_S;

void clock_reset(void)
{
	now = CLOCK_NS_PER_S;
}

void clock_advance(uint64_t ns)
{
	now += ns;
}

uint64_t clock_set(uint64_t ns)
{
	uint64_t was = now;
	now = ns;
	return was;
}

uint64_t clock_now(void)
{
	return now;
}

uint64_t clock_since_boot(void)
{
	return now;
}

static int64_t jumped;

uint64_t clock_wall(void)
{
	return 1700000000ull * CLOCK_NS_PER_S + (uint64_t)jumped + now++; /* never twice the same: it makes names */
}

void clock_wall_jump(int64_t ahead_ns)
{
	jumped = ahead_ns;
}
