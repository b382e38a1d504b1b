#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic int64_t jumped_ns;

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * CLOCK_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_since_boot(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

uint64_t clock_wall(void)
{
	return read_clock(CLOCK_REALTIME) + (uint64_t)atomic_load_explicit(&jumped_ns, memory_order_relaxed);
}

void clock_wall_jump(int64_t ahead_ns)
{
	atomic_store(&jumped_ns, ahead_ns);
}
