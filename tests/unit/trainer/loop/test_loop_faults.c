#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer/loop_ranks.h"

/* One rank plays this; the bits are those of an undisturbed run. Returns the run, to be freed. */
static struct run *play(int rank, const char *faults)
{
	struct run *run = make_run(4);

	run->life[rank].options.faults = faults;
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(4), "%s", faults);
	return run;
}

Test(loop_faults, lost_context_is_replaced_and_the_others_live_on)
{
	static const char *const faults[] = {"trap@7", "illegal-address@7", "device-lost@7", "ecc@7"};

	for (int i = 0; i < 3; i++) {
		struct run *run = play(2, faults[i]);

		for (int r = 0; r < 4; r++)
			cr_assert_eq(run->life[r].lives, r == 2 ? 2 : 1, "%s: rank %d", faults[i], r);
		cr_assert_eq(run->job.restores, 4);
		free_run(run);
	}
}

Test(loop_faults, work_that_never_ends_costs_the_process)
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

Test(loop_faults, another_collective_sends_all_back_without_a_loss)
{
	struct run *run = play(3, "mismatch@9");

	for (int r = 0; r < 4; r++)
		cr_assert_eq(run->life[r].lives, 1);
	cr_assert_eq(run->job.restores, 4);
	free_run(run);
}

static int lines_with(const char *path, const char *text)
{
	char line[4096];
	int n = 0;
	FILE *f = fopen(path, "r");

	cr_assert(f, "%s", path);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	fclose(f);
	return n;
}

Test(loop_faults, who_was_in_another_collective_is_told_by_all)
{
	struct run *run = make_run(4);
	char file[] = "/tmp/ckpt-report-XXXXXX";
	int fd = mkstemp(file);

	cr_assert(fd >= 0 && !close(fd));
	run->life[3].options.faults = "mismatch@9";
	for (int r = 0; r < 4; r++)
		run->life[r].options.report = file;
	run_all(run);
	assert_done(run, 12);
	cr_expect_eq(lines_with(file, "\"left\":\"mismatch: rank 3 was in all_gather #"), 4);
	/* One that the news calls away before it is there is late: two against one is the least. */
	int with_all = lines_with(file, "; 3 ranks in reduce_scatter #");
	cr_expect_eq(with_all ? with_all : lines_with(file, "; 2 ranks in reduce_scatter #"), 4);
	free_run(run);
	unlink(file);
}

/* Saves 2, 4, 6 … ; the loss of step 9 is the first one that is wrong, when 8 may hold the damage. */
Test(loop_faults, nan_sends_all_back_to_a_healthy_checkpoint)
{
	struct run *run = play(1, "nan@7");

	for (int r = 0; r < 4; r++)
		cr_assert_eq(run->life[r].lives, 1);
	cr_assert_eq(run->job.restores, 4);
	bool again = false;
	for (int i = 0; i < run->job.save_count; i++)
		again |= run->job.saves[i].step == 4 && run->job.saves[i].epoch > 1;
	cr_assert(again, "what was gone back to is not the newest one");
	cr_assert_eq(run->job.not_finite, 4, "each rank has handed it over");
	cr_assert_gt(run->job.losses, 4 * 12);
	free_run(run);
}

Test(loop_faults, nan_without_a_healthy_checkpoint_starts_afresh)
{
	struct run *run = play(1, "nan@1");

	cr_assert_eq(run->job.restores, 0);
	free_run(run);
}

/* What is on a storage that is away is not trained over. */
Test(loop_faults, nan_while_no_checkpoint_can_be_read_ends)
{
	struct run *run = make_run(2);

	run->job.restore_error = -EIO;
	run->life[0].options.faults = "nan@1";
	run_all(run);
	for (int r = 0; r < 2; r++)
		cr_assert_eq(run->life[r].rc, -EIO, "rank %d: %d", r, run->life[r].rc);
	cr_assert_eq(run->job.restores, 0);
	free_run(run);
}

Test(loop_faults, a_training_that_diverges_ends)
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

Test(loop_faults, flipped_bit_is_outvoted_and_not_saved)
{
	struct run *run = play(2, "flip@5");

	cr_assert_eq(run->job.restores, 4);
	for (int i = 0; i < run->job.save_count; i++)
		cr_assert(run->job.saves[i].step != 6 || run->job.saves[i].epoch > 1, "the flipped state was saved");
	free_run(run);
}

/* What no save compares would be trained on by all. */
Test(loop_faults, flipped_bit_waits_for_a_save_that_every_rank_has_a_slot_for)
{
	struct run *run = make_run(4);

	run->life[2].options.faults = "flip@5";
	run->job.begin_error = -EBUSY;
	run->job.begin_from = 6;
	run->job.begin_to = 8;
	run->job.begin_of = 1;
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(4));
	cr_assert_eq(run->job.restores, 4, "it was not found");
	for (int i = 0; i < run->job.save_count; i++)
		cr_assert(run->job.saves[i].step != 8 || run->job.saves[i].epoch > 1 ||
				  fake_deviates(&run->job, &run->job.saves[i]),
			  "it was not before the save of step 8");
	free_run(run);
}

Test(loop_faults, flipped_bit_before_the_last_save_is_outvoted)
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

Test(loop_faults, compressed_gradients_need_what_they_left_out)
{
	for (enum compress_kind kind = COMPRESS_INT8; kind <= COMPRESS_1BIT; kind++) {
		uint64_t whole = compressed(kind, false, false);

		cr_assert_neq(whole, undisturbed(3), "kind %d", kind);
		cr_assert_eq(compressed(kind, true, false), whole, "kind %d: the residuals were restored", kind);
		cr_assert_neq(compressed(kind, true, true), whole, "kind %d: without them the bits are others", kind);
	}
}

/* Nor is it made: the fault has its place in the vote. */
Test(loop_faults, without_a_vote_a_flipped_bit_is_not_looked_for)
{
	struct run *run = make_run(3);

	for (int r = 0; r < 3; r++)
		run->life[r].options.no_vote = true;
	run->life[2].options.faults = "flip@5";
	run_all(run);
	assert_done(run, 12);
	cr_assert_eq(run->job.restores, 0);
	free_run(run);
}

/* With two ranks nobody can say who is wrong; both restore what is right. */
Test(loop_faults, flipped_bit_of_one_of_two_is_mended)
{
	struct run *run = make_run(2);

	run->life[1].options.faults = "flip@3";
	run_all(run);
	cr_assert_eq(assert_done(run, 12), undisturbed(2));
	cr_assert_eq(run->job.restores, 2);
	free_run(run);
}

Test(loop_faults, slowness_and_a_loss_that_is_only_said_change_no_bit)
{
	free_run(play(3, "slow:8@2"));
	free_run(play(3, "loss-spike@2"));
}

Test(loop_faults, faults_that_are_unknown_are_named)
{
	struct run *run = make_run(1);

	run->life[0].options.faults = "murder@3";
	run_all(run);
	cr_assert_eq(run->life[0].rc, -EINVAL);
	cr_assert_not_null(strstr(run->life[0].why, "murder@3"), "%s", run->life[0].why);
	free_run(run);
}
