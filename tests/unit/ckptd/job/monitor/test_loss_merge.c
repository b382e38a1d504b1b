#include "job/monitor/loss_merge.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { RANKS = 3 };

static struct arena_losses all[RANKS];
static const struct arena_losses *of[RANKS];
static struct loss_merge m;
static struct loss_merged got;
static uint32_t epoch;

static void setup(void)
{
	memset(all, 0, sizeof(all));
	memset(&m, 0, sizeof(m));
	epoch = 2;
	for (int r = 0; r < RANKS; r++)
		of[r] = &all[r];
}

TestSuite(loss_merge, .init = setup);

static void say_norm(int rank, uint64_t step, double loss, double norm)
{
	losses_put(&all[rank],
		   &(struct loss_said){.step = step, .epoch = epoch, .loss = loss, .gradient_norm = (float)norm});
}

static void say(int rank, uint64_t step, double loss)
{
	say_norm(rank, step, loss, -1);
}

static bool next(void)
{
	return loss_merge_next(&m, epoch, of, RANKS, &got);
}

Test(loss_merge, of_a_step_the_median_of_the_ranks_is_given_once_all_have_told)
{
	say(0, 5, 1), say(1, 5, 2), say(2, 5, 9);
	cr_assert(next());
	cr_assert(got.step == 5 && got.epoch == 2 && got.value == 2 && got.norm == -1 && got.rank == UINT32_MAX);
	cr_assert_not(next());
	say(0, 6, 3), say(0, 7, 4), say(2, 6, 5);
	cr_assert_not(next(), "rank 1 has not told of step 6");
	say(1, 6, 4);
	cr_assert(next() && got.step == 6 && got.value == 4);
	say(1, 8, 1), say(2, 8, 1);
	cr_assert(next() && got.step == 7 && got.value == 4, "only rank 0 told of it, and nobody will any more");
}

/* As the last stage of a pipeline. */
Test(loss_merge, ranks_that_tell_of_none_are_not_waited_for)
{
	of[0] = NULL;
	say_norm(2, 5, 1, 3);
	cr_assert(next() && got.value == 1 && got.norm == 3);
	say_norm(2, 6, 2, 0);
	cr_assert(next() && got.step == 6 && got.norm == 0);
}

Test(loss_merge, the_norm_is_the_median_of_those_that_know_it)
{
	say_norm(0, 5, 1, 3), say_norm(1, 5, 1, -1), say_norm(2, 5, 1, 5);
	cr_assert(next() && got.norm == 4);
	say_norm(0, 6, 1, 3), say_norm(1, 6, 1, NAN), say_norm(2, 6, 1, 5);
	cr_assert(next() && isinf(got.norm), "one that is no number counts");
}

Test(loss_merge, what_is_no_number_is_given_at_once_with_its_rank)
{
	say(0, 5, 1), say(1, 5, NAN);
	cr_assert(next() && isnan(got.value) && got.step == 5 && got.rank == 1);
	say(2, 5, 2);
	cr_assert(next() && got.step == 5 && got.value == 1.5);
}

/* Nobody knew that rank 1 tells of losses, too. */
Test(loss_merge, what_is_no_number_counts_after_its_step_was_given)
{
	say(0, 5, 1);
	cr_assert(next() && got.step == 5 && got.value == 1);
	say(1, 5, NAN), say_norm(2, 5, 1, NAN);
	cr_assert(next() && isnan(got.value) && got.step == 5 && got.rank == 1);
	cr_assert(next() && got.value == 1 && isnan(got.norm) && got.step == 5 && got.rank == 2);
	say(0, 6, 1), say(1, 6, 1), say(2, 6, 1);
	cr_assert(next() && got.step == 6 && got.value == 1, "what follows is not held up");
	cr_assert_not(next());
}

/* The job went back for it. */
Test(loss_merge, what_was_no_number_in_an_earlier_epoch_is_over)
{
	say(0, 5, 1);
	cr_assert(next());
	epoch = 3;
	say(0, 4, 1);
	cr_assert(next() && got.epoch == 3);
	epoch = 2;
	say(1, 5, NAN);
	epoch = 3;
	cr_assert_not(next());
}

Test(loss_merge, who_stops_telling_is_not_waited_for_long)
{
	say(0, 1, 1), say(1, 1, 1), say(2, 1, 1);
	cr_assert(next());
	for (uint64_t step = 2; step < 2 + ARENA_LOSSES; step++)
		say(0, step, 1), say(1, step, 1);
	unsigned given = 0;
	while (next())
		given++;
	cr_assert_geq(given, ARENA_LOSSES / 2 - 1u);
	cr_assert_lt(given, (unsigned)ARENA_LOSSES);
}

Test(loss_merge, steps_that_are_made_again_come_again_in_their_order)
{
	for (int r = 0; r < RANKS; r++)
		say(r, 8, 1), say(r, 9, 2);
	say(0, 4, 3);
	cr_assert(next() && got.step == 8);
	cr_assert(next() && got.step == 9 && got.value == 2, "rank 0 is back at step 4 already");
	cr_assert_not(next());
	say(1, 4, 3), say(2, 4, 3);
	cr_assert(next() && got.step == 4 && got.value == 3);
}

Test(loss_merge, a_new_epoch_comes_after_the_one_before_and_waits_for_none_of_it)
{
	for (int r = 0; r < RANKS; r++)
		say(r, 8, 1);
	cr_assert(next() && got.step == 8);
	say(1, 9, 2);
	say(2, 9, NAN); /* it has just been found, and all go back */
	epoch = 3;
	say(0, 7, 5);
	cr_assert(next() && isnan(got.value) && got.epoch == 2 && got.rank == 2);
	cr_assert(next() && got.epoch == 2 && got.step == 9 && got.value == 2);
	cr_assert(next() && got.epoch == 3 && got.step == 7 && got.value == 5);
	cr_assert_not(next());
}

/* The daemon is new, and the arena is not. */
Test(loss_merge, what_is_left_of_earlier_epochs_is_nobodys)
{
	say(0, 8, NAN);
	epoch = 3;
	cr_assert_not(next());
	say(0, 4, 2);
	cr_assert(next() && got.step == 4 && got.epoch == 3);
}
