#include "format/tensor/rollback.h"

#include <criterion/criterion.h>

static struct rollbacks all;

static void go_back(uint32_t at, uint64_t step, uint32_t epoch)
{
	rollbacks_add(&all, (struct rollback){at, {step, epoch}});
	cr_assert(rollbacks_are_sound(&all));
	cr_assert_eq(rollbacks_last(&all), at);
}

static bool counts(uint64_t step, uint32_t epoch)
{
	return !rollbacks_give_up(&all, (struct step_id){step, epoch});
}

Test(rollback, what_is_later_is_given_up_and_what_is_saved_from_then_on_counts)
{
	cr_expect(counts(700, 5) && rollbacks_last(&all) == 0);
	go_back(6, 600, 5);
	cr_expect(counts(600, 5) && counts(900, 4) && counts(1, 6));
	cr_expect_not(counts(601, 5));
}

Test(rollback, a_later_one_leaves_what_was_given_up_before)
{
	go_back(6, 600, 5);
	go_back(8, 650, 6);
	cr_expect_not(counts(601, 5), "nothing of epoch 6 may be left");
	cr_expect_not(counts(651, 6));
	cr_expect(counts(650, 6) && counts(600, 5) && counts(1, 8));
}

Test(rollback, one_to_before_the_last_takes_its_place_and_so_does_one_to_what_was_given_up)
{
	go_back(6, 600, 5);
	go_back(8, 500, 5);
	cr_expect_eq(all.n, 1);
	cr_expect(!counts(600, 5) && !counts(1, 6) && counts(500, 5));
	go_back(9, 900, 5);
	cr_expect_eq(all.n, 1);
	cr_expect(counts(900, 5) && !counts(901, 5));
}

Test(rollback, of_too_many_the_oldest_is_forgotten)
{
	for (uint32_t i = 0; i < ROLLBACKS_MAX + 3; i++)
		go_back(2 + 2 * i, 10, 1 + 2 * i);
	cr_expect_eq(all.n, (uint32_t)ROLLBACKS_MAX);
	cr_expect_eq(all.of[0].at, 8);
}
