#include "runtime/step_rate.h"

#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_AT_ONCE = 100000 }; /* beyond it the rank has not counted but jumped */

static void add(struct pace *pace, uint64_t ns, uint64_t steps)
{
	histogram_add(&pace->steps, ns, steps);
	pace->recent_us[pace->at] = (uint32_t)min_u64(ns / 1000, UINT32_MAX);
	pace->at = (pace->at + 1) % PACE_RECENT;
	if (pace->nrecent < PACE_RECENT)
		pace->nrecent++;
}

void pace_beat(struct pace *pace, uint32_t epoch, uint64_t step, uint64_t beat_ns)
{
	if (pace->epoch == epoch && step == pace->step)
		return;
	if (pace->epoch == epoch && step > pace->step && step - pace->step <= STEPS_AT_ONCE && beat_ns > pace->step_ns)
		add(pace, (beat_ns - pace->step_ns) / (step - pace->step), step - pace->step);
	pace->epoch = epoch;
	pace->step = step;
	pace->step_ns = beat_ns;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

uint32_t pace_median_us(const struct pace *pace)
{
	uint32_t sorted[PACE_RECENT];
	if (!pace->nrecent)
		return 0;
	memcpy(sorted, pace->recent_us, pace->nrecent * sizeof(*sorted)); /* the ring fills from its beginning */
	qsort(sorted, pace->nrecent, sizeof(*sorted), compare);
	return sorted[(pace->nrecent - 1) / 2];
}
