#include "world.h"

#include "base/clock.h"
#include "net_sim.h"
#include "registry_sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t rng, run_seed, run_event;
static uint64_t kept_rng, kept_clock;
static struct disk_faults kept_faults;

uint64_t *world_rng(void)
{
	return &rng;
}

void world_reset(uint64_t seed)
{
	rng = seed;
	run_seed = seed;
	run_event = 0;
	clock_reset();
	disk_sim_reset();
	net_sim_reset();
	registry_sim_reset(run_seed);
}

void world_enter_threads(void)
{
	struct disk_faults none = {0};
	kept_rng = rng;
	kept_clock = clock_now();
	kept_faults = disk_sim_faults(&none);
}

void world_leave_threads(void)
{
	rng = kept_rng;
	clock_set(kept_clock);
	disk_sim_faults(&kept_faults);
}

void world_end(void)
{
	disk_sim_reset();
	net_sim_reset();
	registry_sim_reset(run_seed);
}

void sim_context(uint64_t seed, uint64_t event)
{
	run_seed = seed;
	run_event = event;
}

void sim_fail(const char *file, int line, const char *condition, const char *fmt, ...)
{
	va_list ap;
	printf("seed %" PRIu64 " event %" PRIu64 ": %s:%d: %s: ", run_seed, run_event, file, line, condition);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_Exit(1);
}
