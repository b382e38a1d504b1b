/* Steps that a rank had no slot for: coordinator/save/skipped_saves.c. */
#include "ckptd/coordinator/coordinator_maker.h"

#include <criterion/criterion.h>

static const struct step_id s10 = {10, 1}, s11 = {11, 1};

TestSuite(coord_left_out, .init = coord_maker_setup, .fini = coord_maker_teardown);

static bool was_failed(uint32_t node, struct step_id id)
{
	return told[node].failure == -ECANCELED && !step_compare(told[node].failed, id);
}

Test(coord_left_out, what_others_have_copied_fails_on_all_nodes)
{
	join_all();
	coord_copied(coord, from(0), s10);
	coord_left_out(coord, from(1), s10);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(was_failed(n, s10));
}

Test(coord_left_out, who_comes_with_it_later_is_told_and_nobody_else)
{
	join_all();
	coord_left_out(coord, from(1), s10);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].failure, 0, "node %u has not told of it", n);
	coord_copied(coord, from(0), s10);
	cr_expect(was_failed(0, s10));
	cr_expect_eq(told[2].failure, 0);
	coord_ready(coord, from(0), s10);
	cr_expect_eq(place.made, 0);
}

Test(coord_left_out, who_comes_with_it_when_others_have_forgotten_it_is_told)
{
	join_all();
	coord_copied(coord, from(0), s10);
	coord_left_out(coord, from(1), s10);
	for (uint32_t n = 0; n < NODES; n++)
		coord_forgot(coord, n, s10);
	coord_copied(coord, from(2), s10);
	cr_expect(was_failed(2, s10));
}

Test(coord_left_out, the_next_step_is_nobody_s_loss)
{
	join_all();
	coord_left_out(coord, from(1), s10);
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), s11);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s11, LEVEL_CAPTURED);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].level == LEVEL_CAPTURED && !told[n].failure);
}

/* It was tried again. */
Test(coord_left_out, what_all_have_copied_stays)
{
	join_all();
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), s10);
	coord_left_out(coord, from(1), s10);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), s10, LEVEL_CAPTURED);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].level == LEVEL_CAPTURED && !told[n].failure);
}

/* As one that there is no memory to take note of. */
Test(coord_left_out, what_nobody_can_follow_fails_on_all_nodes_and_for_who_comes_with_it_later)
{
	join_all();
	coord_leave_out(coord, s10, -ENOMEM, "no memory");
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].failure, -ENOMEM);
		told[n].failure = 0;
	}
	coord_ready(coord, from(1), s10);
	cr_expect_eq(told[1].failure, -ENOMEM);
	cr_expect_str_eq(told[1].text, "no memory");
	cr_expect_eq(told[0].failure, 0);
	cr_expect_eq(place.made, 0);
}

/* Each would be followed until all nodes have forgotten it, which those that never had it do not. */
Test(coord_left_out, a_node_that_tells_of_ever_new_saves_is_followed_so_far)
{
	struct step_id beyond = {COORD_SAVES_MAX + 1, 1}, next = {10, 2};
	join_all();
	for (uint64_t step = 1; step <= COORD_SAVES_MAX; step++)
		coord_copied(coord, from(1), (struct step_id){step, 1});
	cr_expect_eq(told[1].failure, 0);
	coord_copied(coord, from(1), beyond);
	cr_expect_eq(coord->nsaves, COORD_SAVES_MAX);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].failure == -ENOMEM && !step_compare(told[n].failed, beyond), "node %u waits for it",
			  n);
	coord_lost(coord, from(2), 2, true, "it was killed");
	for (uint64_t step = 1; step <= COORD_SAVES_MAX; step++)
		for (uint32_t n = 0; n < NODES; n++)
			coord_forgot(coord, n, (struct step_id){step, 1});
	cr_expect_eq(coord->nsaves, 0);
	coord_copied(coord, from(1), next);
	cr_expect(step_compare(told[1].failed, next));
}

Test(coord_left_out, what_is_said_in_an_epoch_that_is_over_is_not_heard)
{
	struct coord_from old = from(1);
	join_all();
	coord_lost(coord, from(2), 2, true, "it was killed");
	coord_left_out(coord, old, s10);
	coord_left_out(coord, from(1), s10);
	coord_copied(coord, from(0), (struct step_id){10, 2});
	cr_expect(!was_failed(0, (struct step_id){10, 2}));
}

Test(coord_left_out, the_last_few_are_remembered)
{
	join_all();
	for (uint64_t step = 10; step < 60; step++)
		coord_left_out(coord, from(1), (struct step_id){step, 1});
	coord_copied(coord, from(0), (struct step_id){28, 1});
	cr_expect(was_failed(0, (struct step_id){28, 1}));
	coord_copied(coord, from(2), s10);
	cr_expect_eq(told[2].failure, 0, "a bounded number of them");
}
