#include "ckptd/coordinator/coordinator_maker.h"
#include "coordinator/coordinator_private.h"

#include <criterion/criterion.h>

static const struct step_id none;

static void setup(void)
{
	coord_maker_setup_in(2);
}

TestSuite(coord_survey, .init = setup, .fini = coord_maker_teardown);

/* The nodes ask for a step, and say what they have in memory themselves. */
static void look(uint64_t step, struct step_id in_memory)
{
	struct peer_restore_candidates found = {.nmemory = in_memory.epoch != 0, .memory = {in_memory}};
	for (uint32_t n = 0; n < NODES; n++)
		coord_restoring(coord, from(n), step);
	for (uint32_t n = 0; n < NODES; n++)
		coord_found(coord, from(n), &found);
}

static void survey(const struct coord_held *held, size_t n)
{
	coord_surveyed(coord, &(struct coord_survey){.epoch = from(0).epoch, .found = held, .n = n});
}

static void expect_raised_to(uint32_t epoch)
{
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].refused, 0);
		cr_expect_eq(told[n].raised, 1);
		cr_expect_eq(told[n].epoch, epoch);
	}
}

Test(coord_survey, of_another_epoch_or_step_is_not_taken)
{
	static const struct coord_held held[] = {{.node = 2, .rank = 1, .world = WORLD, .id = {30, 1}},
						 {.node = 2, .rank = 4, .world = WORLD, .id = {30, 1}}};
	join_all();
	look(20, none);
	coord_surveyed(coord, &(struct coord_survey){.epoch = 7, .found = held, .n = 2});
	cr_expect_eq(told[0].refused, 0);
	survey(held, 2);
	cr_expect_eq(told[0].refusal, -ENODATA);
}

Test(coord_survey, a_job_that_has_run_elsewhere_goes_on_in_a_later_epoch)
{
	join_all();
	look(UINT64_MAX, none);
	coord_surveyed(coord, &(struct coord_survey){.epoch = 2, .known = 4});
	expect_raised_to(5);
}

/* It is of another life of the job: a step that is saved in this epoch now would have the same name. */
Test(coord_survey, a_copy_of_the_epoch_that_has_just_begun_was_made_elsewhere)
{
	static const struct coord_held held[] = {{.node = 2, .rank = 1, .world = WORLD, .id = {30, 1}},
						 {.node = 2, .rank = 4, .world = 1, .id = {10, 2}}};
	join_all();
	look(UINT64_MAX, none);
	survey(held, 2);
	expect_raised_to(3);
}

Test(coord_survey, a_copy_of_an_epoch_in_which_was_saved_is_its_own)
{
	static const struct step_id s10 = {10, 2};
	static const struct coord_held held[] = {{.node = 2, .rank = 1, .world = WORLD, .id = {10, 2}}};
	join_all();
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), s10);
	look(UINT64_MAX, s10);
	survey(held, 1);
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].raised, 0);
		cr_expect_eq(step_compare(told[n].bring.id, s10), 0);
	}
}
