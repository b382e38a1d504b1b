/* Ranks for ckpt run that meet in a collective in each step, as a clock says: a step takes STEP ms, in which a rank computes for a third; rank 1 for all
 * but a moment, from step SLOW on. They go on until they are asked to stop. */
#include "ckpt.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MS = 1000000 };

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void sleep_until(int64_t ns)
{
	struct timespec t = {.tv_sec = ns / (1000 * MS), .tv_nsec = ns % (1000 * MS)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Steps begin at whole multiples of the clock, so that all ranks have the same. */
static void train(ckpt *s, int64_t step_ns, uint64_t slow)
{
	int64_t begin = now_ns() / step_ns * step_ns + step_ns;
	for (uint64_t step = 1; !ckpt_should_stop(s); step++, begin += step_ns) {
		int late = ckpt_rank(s) == 1 && step >= slow;
		sleep_until(begin);
		ckpt_beat(s, step, CKPT_PHASE_BACKWARD);
		sleep_until(begin + (late ? step_ns * 9 / 10 : step_ns / 3));
		ckpt_collective_enter(s, "all_reduce", step, 4096);
		sleep_until(begin + step_ns * 95 / 100);
		ckpt_collective_leave(s);
	}
}

int main(int argc, char **argv)
{
	static uint8_t state[16];
	char why[256];
	ckpt *s;
	if (argc != 3 || ckpt_open(NULL, &s, why, sizeof(why))) {
		fprintf(stderr, "paced: %s\n", argc == 3 ? why : "paced STEP SLOW");
		return 1;
	}
	int rc = ckpt_register_blob(s, "state", CKPT_SCOPE_RANK, state, sizeof(state));
	if (!rc)
		rc = ckpt_join(s, NULL, 0, NULL, -1);
	if (rc)
		fprintf(stderr, "paced: %s\n", ckpt_error(s));
	else
		train(s, strtoll(argv[1], NULL, 10) * MS, strtoull(argv[2], NULL, 10));
	ckpt_close(s);
	return rc != 0;
}
