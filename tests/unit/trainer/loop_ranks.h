/* The ranks of a job as threads that run the loop, for tests. */
#ifndef CKPT_TESTS_LOOP_RANKS_H
#define CKPT_TESTS_LOOP_RANKS_H

#include "fake_ckpt.h"
#include "loop/loop.h"

/* One rank as a thread: when it is killed, another life of it begins. */
struct life {
	struct run *run;
	int rank, lives, rc;
	struct train_options options;
	struct loop_result result;
	char why[LOOP_WHY_SIZE];
	pthread_t thread;
};

struct run {
	struct fake_job job;
	struct data *data;
	volatile sig_atomic_t stop;
	struct life life[FAKE_RANKS];
};

void *live(void *life);

/* Twelve steps, saves to memory every 2 and to storage every 6. Change what is different, then run_all(). */
struct run *make_run(int world);
void run_all(struct run *run);
void free_run(struct run *run);

void kill_at(struct run *run, int rank, uint64_t step);

/* Checks that all ranks ended well at this step and returns their common fingerprint. */
uint64_t assert_done(const struct run *run, uint64_t step);
/* That of a run of twelve steps in which nothing happens. */
uint64_t undisturbed(int world);

#endif
