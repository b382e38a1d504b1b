/* Ranks for ckpt run that meet in a collective in each step, as a clock says: a step takes STEP ms. At step AT one of them does what HOW says, and all
 * others wait for it:
 *
 *	absent     it stays away from the collective
 *	mismatch   it enters another one
 *	stop       it stops itself (SIGSTOP)
 *
 * When the file GATE is there all go on, until they are asked to stop. */
#include "one_rank.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
	int64_t step_ns;
	uint64_t at;
	int rank;
	const char *how, *gate;
};

static void wait_for(const char *gate)
{
	while (access(gate, F_OK) < 0)
		sleep_until(now_ns() + 5 * ONE_RANK_MS);
}

static void stand(ckpt *s, const struct options *o)
{
	int it = (int)ckpt_rank(s) == o->rank;
	if (it && !strcmp(o->how, "stop"))
		raise(SIGSTOP);
	if (it && !strcmp(o->how, "mismatch"))
		ckpt_collective_enter(s, "all_gather", o->at, 512);
	else if (!it)
		ckpt_collective_enter(s, "all_reduce", o->at, 4096);
	wait_for(o->gate);
}

/* Steps begin at whole multiples of the clock, so that all ranks have the same. */
static void train(ckpt *s, const void *arg)
{
	const struct options *o = arg;
	int64_t begin = now_ns() / o->step_ns * o->step_ns + o->step_ns;
	for (uint64_t step = 1; !ckpt_should_stop(s); step++, begin += o->step_ns) {
		sleep_until(begin);
		ckpt_beat(s, step, CKPT_PHASE_BACKWARD);
		sleep_until(begin + o->step_ns / 3);
		if (step == o->at) {
			stand(s, o);
			begin = now_ns() / o->step_ns * o->step_ns;
		}
		ckpt_collective_enter(s, "all_reduce", step, 4096);
		sleep_until(begin + o->step_ns / 2);
		ckpt_collective_leave(s);
	}
}

int main(int argc, char **argv)
{
	struct options o = {0};
	bool well = argc == 6;
	if (well)
		o = (struct options){.step_ns = strtoll(argv[1], NULL, 10) * ONE_RANK_MS,
				     .at = strtoull(argv[2], NULL, 10),
				     .rank = (int)strtol(argv[3], NULL, 10),
				     .how = argv[4],
				     .gate = argv[5]};
	return one_rank("stuck STEP AT RANK HOW GATE", well, train, &o);
}
