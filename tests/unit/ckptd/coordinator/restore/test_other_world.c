#include "coordinator/restore/other_world.h"

#include <criterion/criterion.h>

enum { WORLD = 4, OTHER = 2 };

static const struct coord_held held[] = {
	{.rank = 0, .world = WORLD, .id = {40, 1}}, {.rank = 1, .world = OTHER, .id = {30, 1}},
	{.rank = 1, .world = OTHER, .id = {30, 1}}, {.rank = 0, .world = OTHER, .id = {20, 1}},
	{.rank = 1, .world = OTHER, .id = {20, 1}}, {.rank = 0, .world = OTHER, .id = {10, 1}},
	{.rank = 1, .world = OTHER, .id = {10, 1}},
};

static struct rollbacks back;

static void expect_newest(size_t n, uint32_t world, uint64_t wanted, uint64_t step)
{
	uint32_t other = 0;
	struct coord_survey survey = {.found = held, .n = n};
	struct step_id id = other_world_newest(&survey, world, wanted, &back, &other);
	cr_expect_eq(id.epoch, step ? 1 : 0);
	cr_expect_eq(id.step, step, "%lu, not %lu", (unsigned long)id.step, (unsigned long)step);
	cr_expect_eq(other, step ? OTHER : 0);
}

Test(other_world, is_the_newest_of_which_each_part_is_held)
{
	expect_newest(7, WORLD, STEP_NEWEST, 20);
	expect_newest(4, WORLD, STEP_NEWEST, 0);
}

Test(other_world, is_not_that_of_the_ranks_themselves)
{
	expect_newest(7, OTHER, STEP_NEWEST, 0);
}

Test(other_world, is_of_the_step_that_is_wanted)
{
	expect_newest(7, WORLD, 10, 10);
	expect_newest(7, WORLD, 30, 0);
}

Test(other_world, is_none_that_was_given_up)
{
	back = (struct rollbacks){1, {{2, {10, 1}}}};
	expect_newest(7, WORLD, STEP_NEWEST, 10);
	back = (struct rollbacks){1, {{2, {9, 1}}}};
	expect_newest(7, WORLD, STEP_NEWEST, 0);
}
