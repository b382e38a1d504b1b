#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_ckpt.h"
#include "loop.h"

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

static void *live(void *argument)
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

/* Twelve steps, saves to memory every 2 and to storage every 6. Change what is different, then run_all(). */
static struct run *make_run(int world)
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

static void run_all(struct run *run)
{
	for (int r = 0; r < run->job.world; r++)
		cr_assert_eq(pthread_create(&run->life[r].thread, NULL, live, &run->life[r]), 0);
	for (int r = 0; r < run->job.world; r++)
		pthread_join(run->life[r].thread, NULL);
}

static void free_run(struct run *run)
{
	fake_end(&run->job);
	data_free(run->data);
	free(run);
}

static void kill_at(struct run *run, int rank, uint64_t step)
{
	run->job.kills[run->job.kill_count++] = (struct fake_kill){.rank = rank, .step = step};
}

/* Checks that all ranks ended well at this step and returns their common fingerprint. */
static uint64_t assert_done(const struct run *run, uint64_t step)
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

static uint64_t undisturbed(int world)
{
	struct run *run = make_run(world);
	uint64_t fingerprint;

	run_all(run);
	fingerprint = assert_done(run, 12);
	free_run(run);
	return fingerprint;
}

/* Lives 1 and 2 of a job of three whose first rank is lost: they have the state of ranks 0 and 1 of two. */
Test(loop, a_rank_goes_on_in_another_place, .timeout = 20)
{
	struct run *run = make_run(3);

	run->job.shrunk = 1;
	run->job.world = 2;
	for (int r = 1; r < 3; r++)
		cr_assert_eq(pthread_create(&run->life[r].thread, NULL, live, &run->life[r]), 0);
	for (int r = 1; r < 3; r++)
		pthread_join(run->life[r].thread, NULL);
	for (int r = 1; r < 3; r++) {
		cr_assert_eq(run->life[r].rc, 0, "rank %d: %s", r, run->life[r].why);
		cr_assert_eq(run->life[r].result.rank, r - 1);
		cr_assert_eq(run->life[r].lives, 1);
	}
	run->life[0] = run->life[1];
	run->life[1] = run->life[2];
	uint64_t fingerprint = assert_done(run, 12);
	free_run(run);
	cr_assert_eq(fingerprint, undisturbed(2));
}

Test(loop, one_rank_trains_alone, .timeout = 20)
{
	struct run *run = make_run(1);

	run_all(run);
	assert_done(run, 12);
	cr_assert_eq(fake_saved(&run->job, CKPT_STORAGE), 12);
	cr_assert_eq(fake_saved(&run->job, CKPT_MEMORY), 10);
	cr_assert_lt(run->life[0].result.loss, 5.6); /* below ln 256 */
	free_run(run);
}

Test(loop, undisturbed_runs_are_equal, .timeout = 20)
{
	uint64_t first = undisturbed(4);

	cr_assert_eq(undisturbed(4), first);
	cr_assert_neq(undisturbed(3), 0);
}

Test(loop, killed_rank_changes_no_bit, .timeout = 30)
{
	struct run *run = make_run(4);

	kill_at(run, 2, 8);
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(4));
	cr_assert_eq(run->job.restores, 4);
	cr_assert_eq(run->life[2].lives, 2);
	cr_assert_eq(run->life[1].lives, 1, "a survivor must not end");
	free_run(run);
}

Test(loop, loss_before_the_first_save_starts_afresh, .timeout = 30)
{
	struct run *run = make_run(3);

	kill_at(run, 0, 2);
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(3));
	cr_assert_eq(run->job.restores, 0);
	free_run(run);
}

Test(loop, many_losses_change_no_bit, .timeout = 30)
{
	struct run *run = make_run(4);

	kill_at(run, 0, 4);
	kill_at(run, 3, 6);
	kill_at(run, 3, 10);
	kill_at(run, 1, 12); /* in the last save */
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(4));
	cr_assert_eq(run->life[0].lives, 2);
	cr_assert_eq(run->life[1].lives, 2);
	cr_assert_eq(run->life[2].lives, 1);
	cr_assert_eq(run->life[3].lives, 3);
	free_run(run);
}

/* One rank plays this; the bits are those of an undisturbed run. Returns the run, to be freed. */
static struct run *play(int rank, const char *faults)
{
	struct run *run = make_run(4);

	run->life[rank].options.faults = faults;
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(4), "%s", faults);
	return run;
}

Test(loop, lost_context_is_replaced_and_the_others_live_on, .timeout = 60)
{
	static const char *const faults[] = {"trap@7", "illegal-address@7", "device-lost@7"};

	for (int i = 0; i < 3; i++) {
		struct run *run = play(2, faults[i]);

		for (int r = 0; r < 4; r++)
			cr_assert_eq(run->life[r].lives, r == 2 ? 2 : 1, "%s: rank %d", faults[i], r);
		cr_assert_eq(run->job.restores, 4);
		free_run(run);
	}
}

Test(loop, work_that_never_ends_costs_the_process, .timeout = 60)
{
	struct run *run = make_run(4);

	run->life[1].options.faults = "never-ends@7";
	for (int r = 0; r < 4; r++)
		run->life[r].options.timeout_ms = 300;
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(4));
	cr_assert_eq(run->life[1].lives, 2);
	cr_assert_eq(run->life[0].lives, 1);
	free_run(run);
}

Test(loop, another_collective_sends_all_back_without_a_loss, .timeout = 30)
{
	struct run *run = play(3, "mismatch@9");

	for (int r = 0; r < 4; r++)
		cr_assert_eq(run->life[r].lives, 1);
	cr_assert_eq(run->job.restores, 4);
	free_run(run);
}

/* Saves 2, 4, 6 … ; the loss of step 9 is the first one that is wrong, when 8 may hold the damage. */
Test(loop, nan_sends_all_back_to_a_healthy_checkpoint, .timeout = 30)
{
	struct run *run = play(1, "nan@7");

	for (int r = 0; r < 4; r++)
		cr_assert_eq(run->life[r].lives, 1);
	cr_assert_eq(run->job.restores, 4);
	free_run(run);
}

Test(loop, nan_without_a_healthy_checkpoint_starts_afresh, .timeout = 30)
{
	struct run *run = play(1, "nan@1");

	cr_assert_eq(run->job.restores, 0);
	free_run(run);
}

Test(loop, a_training_that_diverges_ends, .timeout = 30)
{
	struct run *run = make_run(2);

	run->life[0].options.faults = "nan@3,nan@3,nan@3,nan@3,nan@3";
	run_all(run);
	for (int r = 0; r < 2; r++) {
		cr_assert_eq(run->life[r].rc, -EDOM, "rank %d: %d", r, run->life[r].rc);
		cr_assert_not_null(strstr(run->life[r].why, "diverges"), "%s", run->life[r].why);
	}
	free_run(run);
}

Test(loop, flipped_bit_is_outvoted_and_not_saved, .timeout = 30)
{
	struct run *run = play(2, "flip@5");

	cr_assert_eq(run->job.restores, 4);
	for (int i = 0; i < run->job.save_count; i++)
		cr_assert(run->job.saves[i].step != 6 || run->job.saves[i].epoch > 1, "the flipped state was saved");
	free_run(run);
}

Test(loop, flipped_bit_before_the_last_save_is_outvoted, .timeout = 30)
{
	struct run *run = play(0, "flip@11");

	cr_assert_eq(run->job.restores, 4);
	free_run(run);
}

static uint64_t compressed(enum compress_kind kind, bool killed, bool forgets)
{
	struct run *run = make_run(3);
	uint64_t fingerprint;

	for (int r = 0; r < 3; r++)
		run->life[r].options.compress = kind;
	run->job.forgets = forgets;
	if (killed)
		kill_at(run, 1, 8);
	run_all(run);
	fingerprint = assert_done(run, 12);
	cr_assert_eq(run->job.restores, killed ? 3 : 0);
	cr_assert_lt(run->life[0].result.loss, 5.6, "it learns");
	free_run(run);
	return fingerprint;
}

Test(loop, compressed_gradients_need_what_they_left_out, .timeout = 60)
{
	for (enum compress_kind kind = COMPRESS_INT8; kind <= COMPRESS_1BIT; kind++) {
		uint64_t whole = compressed(kind, false, false);

		cr_assert_neq(whole, undisturbed(3), "kind %d", kind);
		cr_assert_eq(compressed(kind, true, false), whole, "kind %d: the residuals were restored", kind);
		cr_assert_neq(compressed(kind, true, true), whole, "kind %d: without them the bits are others", kind);
	}
}

Test(loop, slowness_changes_no_bit, .timeout = 30)
{
	free_run(play(3, "slow:8@2"));
}

Test(loop, faults_that_are_unknown_are_named, .timeout = 30)
{
	struct run *run = make_run(1);

	run->life[0].options.faults = "murder@3";
	run_all(run);
	cr_assert_eq(run->life[0].rc, -EINVAL);
	cr_assert_not_null(strstr(run->life[0].why, "murder@3"), "%s", run->life[0].why);
	free_run(run);
}

static void run_with_begin_error(int error, uint64_t from, uint64_t to)
{
	struct run *run = make_run(2);

	run->job.begin_error = error;
	run->job.begin_from = from;
	run->job.begin_to = to;
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(2));
	cr_assert_eq(run->life[0].result.unsafe, to > 12);
	cr_assert_eq(fake_saved(&run->job, CKPT_STORAGE), to > 12 ? 0 : 12);
	free_run(run);
}

Test(loop, training_goes_on_without_slots, .timeout = 30)
{
	run_with_begin_error(-EBUSY, 1, 12);
}

Test(loop, training_goes_on_without_daemon, .timeout = 30)
{
	run_with_begin_error(-ENOTCONN, 4, 11);
}

Test(loop, failed_last_save_is_told, .timeout = 30)
{
	run_with_begin_error(-EIO, 6, 13);
}

Test(loop, without_a_store_the_last_save_to_memory_is_safe, .timeout = 30)
{
	struct run *run = make_run(2);

	run->job.no_store = true;
	run_all(run);
	assert_done(run, 12);
	for (int r = 0; r < 2; r++)
		cr_assert_not(run->life[r].result.unsafe, "rank %d", r);
	cr_assert_eq(fake_saved(&run->job, CKPT_MEMORY), 12);
	cr_assert_eq(fake_saved(&run->job, CKPT_STORAGE), 0);
	free_run(run);
}

Test(loop, without_a_store_every_save_goes_to_memory, .timeout = 30)
{
	struct run *run = make_run(2);

	run->job.no_store = true;
	run->life[0].options.memory_every = run->life[1].options.memory_every = 0;
	kill_at(run, 1, 12);
	run_all(run);
	assert_done(run, 12);
	for (int r = 0; r < 2; r++)
		cr_assert_not(run->life[r].result.unsafe, "rank %d", r);
	cr_assert_eq(fake_saved(&run->job, CKPT_MEMORY), 12);
	cr_assert_eq(fake_saved(&run->job, CKPT_STORAGE), 0);
	cr_assert_eq(run->job.restores, 2, "from the save that was due for storage");
	free_run(run);
}

Test(loop, request_to_stop_ends_all_ranks_at_one_step_with_a_save, .timeout = 30)
{
	struct run *run = make_run(3);
	uint64_t step;

	run->job.stop_at = 4;
	run_all(run);
	step = run->life[0].result.step;
	cr_assert(step == 5 || step == 6, "%llu", (unsigned long long)step);
	assert_done(run, step);
	cr_assert_eq(fake_saved(&run->job, CKPT_STORAGE), step);
	free_run(run);
}

Test(loop, signal_ends_the_run_after_one_step, .timeout = 30)
{
	struct run *run = make_run(2);

	run->stop = 1;
	run_all(run);
	assert_done(run, 1);
	cr_assert_eq(fake_saved(&run->job, CKPT_STORAGE), 1);
	free_run(run);
}

static void run_rank_0_alone(struct run *run, int expected)
{
	run->job.join_ms = 50; /* rank 1 never comes */
	cr_assert_eq(pthread_create(&run->life[0].thread, NULL, live, &run->life[0]), 0);
	pthread_join(run->life[0].thread, NULL);
	cr_assert_eq(run->life[0].rc, expected);
	cr_assert_not_null(strstr(run->life[0].why, "join: "), "%s", run->life[0].why);
	free_run(run);
}

Test(loop, request_to_stop_ends_the_wait_for_missing_ranks, .timeout = 30)
{
	struct run *run = make_run(2);

	run->stop = 1;
	run_rank_0_alone(run, -ECANCELED);
}

static void *stop_when_joining(void *argument)
{
	struct run *run = argument;

	pthread_mutex_lock(&run->job.lock);
	while (!run->job.joining[0])
		pthread_cond_wait(&run->job.changed, &run->job.lock);
	run->stop = 1;
	pthread_mutex_unlock(&run->job.lock);
	return NULL;
}

Test(loop, request_to_stop_within_a_long_wait_for_missing_ranks_ends_it_soon, .timeout = 15)
{
	struct run *run = make_run(2);
	pthread_t thread;

	run->job.join_ms = 60000;
	cr_assert_eq(pthread_create(&thread, NULL, stop_when_joining, run), 0);
	cr_assert_eq(pthread_create(&run->life[0].thread, NULL, live, &run->life[0]), 0);
	pthread_join(run->life[0].thread, NULL);
	pthread_join(thread, NULL);
	cr_assert_eq(run->life[0].rc, -ECANCELED);
	free_run(run);
}

Test(loop, patience_ends_the_wait_for_missing_ranks, .timeout = 30)
{
	struct run *run = make_run(2);

	run->life[0].options.patience_ms = 40;
	run_rank_0_alone(run, -ETIMEDOUT);
}

Test(loop, other_options_are_named, .timeout = 30)
{
	struct run *run = make_run(3);

	run->life[2].options.rate = 0.5;
	run_all(run);
	for (int r = 0; r < 3; r++) {
		cr_assert_eq(run->life[r].rc, -EINVAL);
		cr_assert_str_eq(run->life[r].why, "ranks 0 and 2 differ in --lr: 0.0030000000000000001 and 0.5");
	}
	free_run(run);
}

Test(loop, dump_holds_the_parameters, .timeout = 30)
{
	struct run *run = make_run(2);
	char file[64];
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	FILE *f;

	snprintf(file, sizeof(file), "/tmp/ckpt-train-dump.%d", (int)getpid());
	run->life[0].options.dump = file;
	run_all(run);
	f = fopen(file, "r");
	cr_assert_not_null(f);
	for (int byte; (byte = getc(f)) != EOF;)
		sum = (sum ^ (uint64_t)byte) * UINT64_C(0x100000001b3);
	fclose(f);
	unlink(file);
	cr_assert_eq(sum, assert_done(run, 12));
	free_run(run);
}
