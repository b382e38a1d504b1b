/* Ranks for ckpt run that meet in a collective in each step, as a clock says: a step takes STEP ms, in which a rank computes for a third; ranks
 * FIRST to LAST for all but a moment, once there is a file SLOW. They go on until they are asked to stop. */
#include "one_rank.h"

#include <stdlib.h>
#include <unistd.h>

struct pace {
	int64_t step_ns;
	const char *slow; /* a path */
	int first, last;
};

/* Steps begin at whole multiples of the clock, so that all ranks have the same. */
static void train(ckpt *s, const void *arg)
{
	const struct pace *pace = arg;
	int64_t step_ns = pace->step_ns;
	bool is_slow = ckpt_rank(s) >= pace->first && ckpt_rank(s) <= pace->last;
	int64_t begin = now_ns() / step_ns * step_ns + step_ns;
	for (uint64_t step = 1; !ckpt_should_stop(s); step++, begin += step_ns) {
		bool late = is_slow && !access(pace->slow, F_OK);
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
	bool well = argc == 5;
	struct pace pace = {.step_ns = well ? strtoll(argv[1], NULL, 10) * ONE_RANK_MS : 0,
			    .slow = well ? argv[2] : NULL,
			    .first = well ? (int)strtol(argv[3], NULL, 10) : 0,
			    .last = well ? (int)strtol(argv[4], NULL, 10) : 0};
	return one_rank("paced STEP SLOW FIRST LAST", well, train, &pace);
}
