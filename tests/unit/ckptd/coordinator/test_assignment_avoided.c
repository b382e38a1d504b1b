/* Nodes to which others are preferred. */
#include "coordinator/assignment.h"

#include <criterion/criterion.h>

enum { NODES_MAX = 12 };

static uint32_t next(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((*seed >> 33) % n);
}

/* Three nodes of two ranks each have begun, the fourth is a spare if it is named so. */
static void begin(struct assignment *c, uint32_t waiting, bool spare)
{
	cr_assert_eq(assignment_init(c, 4, 6, 2), 0);
	for (uint32_t n = 0; n < 3; n++)
		assignment_offer(c, n, 2, false);
	assignment_offer(c, 3, waiting, spare);
	cr_assert_eq(assignment_plan(c), 0);
}

static void expect_nodes(const struct assignment *c, uint32_t world, const uint32_t *nodes)
{
	cr_assert_eq(c->world, world, "%u", c->world);
	for (uint32_t r = 0; r < world; r++)
		cr_expect_eq(c->node[r], nodes[r], "rank %u is of node %u", r, c->node[r]);
}

Test(assignment_avoided, a_spare_comes_before_a_node_that_is_avoided)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 3, 4, 2), 0);
	assignment_avoid(&c, 0, true);
	assignment_offer(&c, 0, 2, false);
	assignment_offer(&c, 1, 2, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_WAITING, "a spare may come");
	assignment_offer(&c, 2, 2, true);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_READY);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){1, 1, 2, 2});
	assignment_free(&c);
}

Test(assignment_avoided, a_spare_stands_in_for_as_many_as_are_avoided_and_no_more)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 4, 6, 2), 0);
	assignment_avoid(&c, 0, true);
	assignment_offer(&c, 0, 1, false);
	assignment_offer(&c, 1, 2, false);
	assignment_offer(&c, 2, 4, true);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_WAITING, "for the one that may yet come");
	assignment_offer(&c, 3, 3, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_READY);
	cr_assert_eq(assignment_plan(&c), 0);
	for (uint32_t r = 0; r < c.world; r++)
		cr_expect_neq(c.node[r], 0u);
	assignment_free(&c);
}

Test(assignment_avoided, where_nobody_else_is_left_an_avoided_node_gets_ranks)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 2, 4, 2), 0);
	assignment_avoid(&c, 0, true);
	assignment_offer(&c, 0, 2, false);
	assignment_offer(&c, 1, 2, false);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){1, 1, 0, 0});
	assignment_avoid(&c, 1, true);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_SOUND, "who has ranks keeps them");
	assignment_free(&c);
}

Test(assignment_avoided, an_avoided_spare_comes_last)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 4, 4, 2), 0);
	for (uint32_t n = 0; n < 4; n++)
		assignment_offer(&c, n, 2, n > 1);
	assignment_avoid(&c, 2, true);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){0, 0, 1, 1});
	assignment_offer(&c, 0, 0, false);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){3, 3, 1, 1});
	assignment_offer(&c, 1, 0, false);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){3, 3, 2, 2});
	assignment_free(&c);
}

/* What is in memory is of use to those alone who stay together. */
Test(assignment_avoided, ranks_are_not_parted_for_the_sake_of_avoiding_a_node)
{
	struct assignment c;
	begin(&c, 2, true);
	assignment_avoid(&c, 3, true);
	assignment_offer(&c, 1, 0, false);
	assignment_offer(&c, 0, 4, false);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 3, 3, 2, 2});
	assignment_free(&c);
}

/* The node is lost with its ranks, and is there again before a plan is made. */
static void come_back(struct assignment *c, uint32_t node)
{
	assignment_offer(c, node, 0, false);
	assignment_offer(c, node, 2, false);
}

Test(assignment_avoided, an_avoided_node_that_comes_back_finds_a_spare_in_its_place)
{
	struct assignment c;
	begin(&c, 2, true);
	assignment_avoid(&c, 1, true);
	come_back(&c, 1);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 3, 3, 2, 2});
	come_back(&c, 3);
	assignment_avoid(&c, 3, true);
	cr_assert_eq(assignment_plan(&c), 0);
	cr_expect(c.node[2] == c.node[3] && c.node[2] != ASSIGNMENT_NOBODY, "both are avoided: either will do");
	assignment_free(&c);
}

Test(assignment_avoided, of_two_avoided_nodes_that_come_back_one_finds_a_spare_in_its_place)
{
	struct assignment c;
	begin(&c, 2, true);
	assignment_avoid(&c, 0, true);
	assignment_avoid(&c, 1, true);
	come_back(&c, 0);
	come_back(&c, 1);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){3, 3, 0, 0, 2, 2});
	assignment_free(&c);
}

Test(assignment_avoided, one_lost_process_of_an_avoided_node_stays_with_the_others)
{
	struct assignment c;
	begin(&c, 2, true);
	assignment_avoid(&c, 1, true);
	assignment_claim(&c, 1, (uint32_t[]){2}, 1);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 1, 1, 2, 2});
	assignment_free(&c);
}

/* Whoever is avoided: the world that is planned is as large as ever, and nobody loses a sound process by it. */
Test(assignment_avoided, avoiding_makes_no_world_smaller)
{
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		uint64_t s = seed;
		struct assignment plain, c;
		cr_assert_eq(assignment_init(&plain, NODES_MAX, 24, 1), 0);
		cr_assert_eq(assignment_init(&c, NODES_MAX, 24, 1), 0);
		for (uint32_t n = 0; n < NODES_MAX; n++) {
			uint32_t offers = next(&s, 5);
			bool spare = !next(&s, 4);
			assignment_offer(&plain, n, offers, spare);
			assignment_offer(&c, n, offers, spare);
			assignment_avoid(&c, n, !next(&s, 3));
		}
		int rc = assignment_plan(&plain);
		cr_assert_eq(assignment_plan(&c), rc);
		cr_assert_eq(c.world, plain.world);
		uint32_t sound = 0, avoided = 0;
		for (uint32_t n = 0; n < NODES_MAX; n++) {
			if (c.nodes[n].avoided)
				avoided += c.nodes[n].has;
			else
				sound += c.nodes[n].offers - c.nodes[n].has;
		}
		cr_assert(!avoided || !sound, "seed %lu: ranks are on a node that is avoided, and others have room",
			  (unsigned long)seed);
		assignment_free(&plain);
		assignment_free(&c);
	}
}
