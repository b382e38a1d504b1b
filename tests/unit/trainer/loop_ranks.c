#include "loop_ranks.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

void *live(void *argument)
{
	struct life *l = argument;

	do {
		l->lives++;
		l->rc = loop_run(&l->options, l->run->data, &l->run->stop, &l->result, l->why);
		if (l->rc == -ECHILD || l->rc == -ENOTRECOVERABLE)
			fake_lost(&l->run->job, l->rank);
		l->options.faults = NULL; /* as the launcher hands over what has not fired */
	} while ((l->rc == -ECHILD || l->rc == -ENOTRECOVERABLE) && l->lives < 10);
	return NULL;
}

struct run *make_run(int world)
{
	struct run *run = calloc(1, sizeof(*run));
	char error[DATA_ERROR_SIZE];

	cr_assert_eq(data_load(NULL, 0, &run->data, error), 0, "%s", error);
	fake_start(&run->job, world);
	for (int r = 0; r < world; r++) {
		struct life *l = &run->life[r];

		*l = (struct life){.run = run, .rank = r};
		options_default(&l->options);
		l->options.steps = 12;
		l->options.batch = 6;
		l->options.model = (struct model_config){.layers = 1, .width = 16, .seq_len = 16, .heads = 2};
		l->options.memory_every = 2;
		l->options.storage_every = 6;
		l->options.rank = r;
		l->options.world = world;
	}
	return run;
}

void run_all(struct run *run)
{
	for (int r = 0; r < run->job.world; r++)
		cr_assert_eq(pthread_create(&run->life[r].thread, NULL, live, &run->life[r]), 0);
	for (int r = 0; r < run->job.world; r++)
		pthread_join(run->life[r].thread, NULL);
}

void free_run(struct run *run)
{
	fake_end(&run->job);
	data_free(run->data);
	free(run);
}

void kill_at(struct run *run, int rank, uint64_t step)
{
	run->job.kills[run->job.kill_count++] = (struct fake_kill){.rank = rank, .step = step};
}

uint64_t assert_done(const struct run *run, uint64_t step)
{
	for (int r = 0; r < run->job.world; r++) {
		const struct life *l = &run->life[r];

		cr_assert_eq(l->rc, 0, "rank %d: %s", r, l->why);
		cr_assert_eq(l->result.rank, r);
		cr_assert_eq(l->result.step, step, "rank %d: step %llu", r, (unsigned long long)l->result.step);
		cr_assert_eq(l->result.fingerprint, run->life[0].result.fingerprint);
	}
	cr_assert_eq(run->job.torn, 0, "a capture was torn");
	return run->life[0].result.fingerprint;
}

uint64_t undisturbed(int world)
{
	struct run *run = make_run(world);
	uint64_t fingerprint;

	run_all(run);
	fingerprint = assert_done(run, 12);
	free_run(run);
	return fingerprint;
}
