#include "base/bytes.h"
#include "base/clock.h"

#include <limits.h>

int clock_ms_until(uint64_t deadline)
{
	uint64_t now = clock_now();
	if (deadline <= now)
		return 0;
	uint64_t ms = div_up(deadline - now, CLOCK_NS_PER_MS);
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

uint64_t clock_deadline(uint64_t ns_from_now)
{
	uint64_t now = clock_now();
	return ns_from_now > UINT64_MAX - now ? UINT64_MAX : now + ns_from_now;
}
