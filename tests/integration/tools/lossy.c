/* lossy KIND STEP: ranks for ckpt run whose loss falls as a training's does, with noise of their own. At STEP it goes wrong: "none" never; "nan" on rank 1, and
 * "spike", for WRONG steps; "rise" from then on, by little in each step. They go on until they are asked to stop. */
#include "one_rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEP_NS = 20000000, WRONG = 40 }; /* a daemon that is late by less still finds it */

static double noise(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(*seed >> 40) / (1 << 24) - 0.5;
}

static double loss_of(const char *kind, uint64_t at, uint64_t step, uint32_t rank, uint64_t *seed)
{
	double loss = (1.7 + 6 / sqrt((double)step + 10)) * (1 + 0.05 * noise(seed));
	if (step < at)
		return loss;
	if (!strcmp(kind, "nan"))
		return step < at + WRONG && rank == 1 ? NAN : loss;
	if (!strcmp(kind, "spike"))
		return step < at + WRONG ? 3 * loss : loss;
	return strcmp(kind, "rise") != 0 ? loss : loss * fmin(1 + 0.003 * (double)(step - at), 2);
}

static void train(ckpt *s, const void *arg)
{
	char *const *words = arg;
	uint64_t at = strtoull(words[1], NULL, 10);
	uint64_t seed = (uint64_t)ckpt_rank(s) + 1;
	for (uint64_t step = 1; !ckpt_should_stop(s); step++) {
		double loss = loss_of(words[0], at, step, (uint32_t)ckpt_rank(s), &seed);
		ckpt_beat_loss(s, step, CKPT_PHASE_OPTIMIZER, loss, 1 + 0.2 * noise(&seed));
		nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
	}
}

int main(int argc, char **argv)
{
	return one_rank("lossy KIND STEP", argc == 3, train, argv + 1);
}
