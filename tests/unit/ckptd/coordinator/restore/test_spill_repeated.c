/* A node that is to bring what only memory has may not have known who coordinates when it was asked: coordinator/restore/spill.c. */
#include "ckptd/coordinator/coordinator_maker.h"

#include "coordinator/coordinator_private.h"

#include <criterion/criterion.h>

static const struct step_id saved = {100, 1};

/* Node 2 is lost, its copies are with node 1, and both others are asked to gather. */
static void ask(void)
{
	static const struct coord_held copies[] = {{.node = 1, .rank = 2, .world = WORLD, .id = {100, 1}},
						   {.node = 1, .rank = 2 + NODES, .world = WORLD, .id = {100, 1}}};
	coord_maker_setup();
	join_all();
	coord_gone(coord, 2, "node 2 is lost");
	coord_hold(coord, "the world changes");
	coord_spill_begin(coord);
	for (uint32_t n = 0; n < 2; n++)
		coord_found(coord, from(n), &(struct peer_restore_candidates){.nmemory = 1, .memory = {saved}});
	coord_surveyed(coord, &(struct coord_survey){.epoch = told[0].epoch, .found = copies, .n = EACH});
	cr_assert(told[0].spill_orders == 1 && told[1].spill_orders == 2);
}

TestSuite(spill_repeated, .init = ask, .fini = coord_maker_teardown);

static void gathered(uint32_t writer, uint32_t owner)
{
	struct step_id as = told[0].spills[0].as;
	coord_spilled(coord, writer, &(struct peer_spilled){.owner = owner, .phase = PEER_SPILL_GATHER, .as = as});
}

static void a_second_later(void)
{
	coord->spill.asked_ns = 0;
	coord_spill_begin(coord);
}

Test(spill_repeated, who_does_not_answer_is_asked_again)
{
	gathered(0, 0);
	coord_spill_begin(coord);
	cr_expect_eq(told[1].spill_orders, 2, "not at once");
	a_second_later();
	cr_expect_eq(told[0].spill_orders, 1, "it has answered");
	cr_expect_eq(told[1].spill_orders, 4);
	cr_expect_eq(told[1].spills[2].bring.nholders, EACH, "as before");
	gathered(1, 1);
	gathered(1, 2);
	a_second_later();
	cr_expect_eq(told[1].spill_orders, 4, "all have answered");
}
