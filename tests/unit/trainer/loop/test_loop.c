#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/deadline.h"
#include "trainer/loop_ranks.h"

/* Lives 1 and 2 of a job of three whose first rank is lost: they have the state of ranks 0 and 1 of two. */
Test(loop, a_rank_goes_on_in_another_place)
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

Test(loop, one_rank_trains_alone)
{
	struct run *run = make_run(1);

	run_all(run);
	assert_done(run, 12);
	cr_assert_eq(fake_saved(&run->job, CKPT_STORAGE), 12);
	cr_assert_eq(fake_saved(&run->job, CKPT_MEMORY), 10);
	cr_assert_lt(run->life[0].result.loss, 5.6); /* below ln 256 */
	free_run(run);
}

Test(loop, a_pace_is_kept_and_changes_no_bit)
{
	struct run *run = make_run(2);
	int64_t from = monotonic_ns();

	for (int r = 0; r < 2; r++)
		run->life[r].options.pace_ms = 250;
	run_all(run);
	cr_assert_geq(monotonic_ns() - from, INT64_C(12) * 250 * 1000000);
	cr_assert_eq(assert_done(run, 12), undisturbed(2));
	free_run(run);
}

Test(loop, undisturbed_runs_are_equal)
{
	uint64_t first = undisturbed(4);

	cr_assert_eq(undisturbed(4), first);
	cr_assert_neq(undisturbed(3), 0);
}

Test(loop, killed_rank_changes_no_bit)
{
	struct run *run = make_run(4);

	kill_at(run, 2, 8);
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(4));
	cr_assert_eq(run->job.restores, 4);
	cr_assert_eq(run->life[2].lives, 2);
	cr_assert_eq(run->life[1].lives, 1, "a survivor must not end");
	cr_assert_geq(fake_connects(), 8, "who waits for others to connect is not to look like one that hangs: %d",
		      fake_connects());
	free_run(run);
}

Test(loop, loss_before_the_first_save_starts_afresh)
{
	struct run *run = make_run(3);

	kill_at(run, 0, 2);
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(3));
	cr_assert_eq(run->job.restores, 0);
	free_run(run);
}

Test(loop, many_losses_change_no_bit)
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

Test(loop, training_goes_on_without_slots)
{
	run_with_begin_error(-EBUSY, 1, 12);
}

Test(loop, training_goes_on_without_daemon)
{
	run_with_begin_error(-ENOTCONN, 4, 11);
}

Test(loop, failed_last_save_is_told)
{
	run_with_begin_error(-EIO, 6, 13);
}

/* A begin that is refused with the same code is another matter: the state of the rank is undefined then. */
Test(loop, a_last_save_that_storage_does_not_permit_is_told)
{
	struct run *run = make_run(2);

	run->job.write_error = -EPERM;
	run_all(run);
	assert_done(run, 12);
	for (int r = 0; r < 2; r++) {
		cr_assert(run->life[r].result.unsafe, "rank %d", r);
		cr_assert_eq(run->life[r].lives, 1, "rank %d", r);
	}
	free_run(run);
}

Test(loop, without_a_store_the_last_save_to_memory_is_safe)
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

static void run_automatic(uint64_t every, const uint64_t *steps, int count)
{
	struct run *run = make_run(2);

	run->job.due_every = every;
	run->life[0].options.save_auto = run->life[1].options.save_auto = true;
	run_all(run);
	assert_done(run, 12);
	cr_assert_eq(run->job.save_count, count);
	for (int i = 0; i < count; i++)
		cr_assert_eq(run->job.saves[i].step, steps[i], "save %d is of step %lu", i,
			     (unsigned long)run->job.saves[i].step);
	free_run(run);
}

Test(loop, saves_when_the_daemon_says_so)
{
	run_automatic(5, (const uint64_t[]){5, 10, 12}, 3);
}

Test(loop, saves_by_step_where_the_interval_is_not_automatic)
{
	run_automatic(0, (const uint64_t[]){2, 4, 6, 8, 10, 12}, 6);
}

Test(loop, without_a_store_every_save_goes_to_memory)
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

Test(loop, request_to_stop_ends_all_ranks_at_one_step_with_a_save)
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

Test(loop, signal_ends_the_run_after_one_step)
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

Test(loop, request_to_stop_ends_the_wait_for_missing_ranks)
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

Test(loop, request_to_stop_within_a_long_wait_for_missing_ranks_ends_it_soon)
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

Test(loop, patience_ends_the_wait_for_missing_ranks)
{
	struct run *run = make_run(2);

	run->life[0].options.patience_ms = 40;
	run_rank_0_alone(run, -ETIMEDOUT);
}

Test(loop, other_options_are_named)
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

Test(loop, dump_holds_the_parameters)
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
