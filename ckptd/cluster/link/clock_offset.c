#include "cluster/link/clock_offset.h"

struct net_clock clock_offset(uint64_t asked, uint64_t answered, uint64_t wall, uint64_t theirs)
{
	uint64_t round_trip = answered - min_u64(asked, answered), half = round_trip / 2;
	uint64_t middle = wall - min_u64(wall, half);
	struct net_clock clock = {.round_trip_ns = round_trip};
	clock.ahead_ns = theirs >= middle ? (int64_t)min_u64(theirs - middle, INT64_MAX)
					  : -(int64_t)min_u64(middle - theirs, INT64_MAX);
	return clock;
}
