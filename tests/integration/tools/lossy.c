/* lossy KIND STEP: ranks for ckpt run whose loss falls as a training's does, with noise of their own. At STEP it goes wrong: "none" never; "nan" on rank 1, and
 * "spike", for WRONG steps; "rise" from then on, by little in each step. They go on until they are asked to stop. */
#include "ckpt.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
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

static void train(ckpt *s, const char *kind, uint64_t at)
{
	uint64_t seed = (uint64_t)ckpt_rank(s) + 1;
	for (uint64_t step = 1; !ckpt_should_stop(s); step++) {
		double loss = loss_of(kind, at, step, (uint32_t)ckpt_rank(s), &seed);
		ckpt_beat_loss(s, step, CKPT_PHASE_OPTIMIZER, loss, 1 + 0.2 * noise(&seed));
		nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
	}
}

int main(int argc, char **argv)
{
	static uint8_t state[16];
	char why[256];
	ckpt *s;
	if (argc != 3 || ckpt_open(NULL, &s, why, sizeof(why))) {
		fprintf(stderr, "lossy: %s\n", argc == 3 ? why : "lossy KIND STEP");
		return 1;
	}
	int rc = ckpt_register_blob(s, "state", CKPT_SCOPE_RANK, state, sizeof(state));
	if (!rc)
		rc = ckpt_join(s, NULL, 0, NULL, -1);
	if (rc)
		fprintf(stderr, "lossy: %s\n", ckpt_error(s));
	else
		train(s, argv[1], strtoull(argv[2], NULL, 10));
	ckpt_close(s);
	return rc != 0;
}
