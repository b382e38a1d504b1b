/* Which node fills which gap: as a rule says that asks all nodes for each piece of each gap. */
#include "coordinator/assignment.h"

#include <criterion/criterion.h>
#include <string.h>

enum { NODES = 12, RANKS_MAX = 64, OFFERS_MAX = 9, TURNS = 20000 };

static uint32_t next(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((*seed >> 33) % n);
}

static uint32_t room(const struct assignment_node *n)
{
	return n->leaving ? 0 : n->offers - n->has;
}

static unsigned turn(const struct assignment_node *n)
{
	return n->avoided ? 2 : n->spare && !n->has;
}

/* Whose turn it is; then who can take all, with the least room for it; then who has the most. */
static bool is_better(const struct assignment_node *a, const struct assignment_node *b, uint32_t ranks)
{
	bool all = room(a) >= ranks;
	if (turn(a) != turn(b))
		return turn(a) < turn(b);
	if (all != (room(b) >= ranks))
		return all;
	return all ? room(a) < room(b) : room(a) > room(b);
}

static uint32_t ask_all(const struct assignment *c, uint32_t ranks)
{
	uint32_t best = NODES;
	for (uint32_t n = 0; n < NODES; n++)
		if (room(&c->nodes[n]) && (best == NODES || is_better(&c->nodes[n], &c->nodes[best], ranks)))
			best = n;
	return best;
}

static uint32_t gap_at(const struct assignment *c, uint32_t rank, uint32_t world)
{
	uint32_t end = rank;
	while (end < world && c->node[end] == ASSIGNMENT_NOBODY)
		end++;
	return end - rank;
}

/* c: a copy, with room of its own. */
static void fill_by_rule(struct assignment *c, uint32_t world)
{
	for (uint32_t r = c->world; r < world; r++)
		c->node[r] = ASSIGNMENT_NOBODY;
	for (uint32_t r = 0; r < world;) {
		uint32_t gap = gap_at(c, r, world);
		if (!gap) {
			r++;
			continue;
		}
		uint32_t node = ask_all(c, gap);
		for (uint32_t i = 0; i < gap && room(&c->nodes[node]); i++, r++) {
			c->node[r] = node;
			c->nodes[node].has++;
		}
	}
}

static void expect_rule(struct assignment *c, uint64_t seed)
{
	uint32_t node[RANKS_MAX];
	struct assignment_node nodes[NODES];
	struct assignment copy = *c;
	copy.node = node;
	copy.nodes = nodes;
	memcpy(node, c->node, sizeof(node));
	memcpy(nodes, c->nodes, sizeof(nodes));
	uint32_t world = assignment_next_world(c);
	fill_by_rule(&copy, world);
	cr_assert_eq(assignment_plan(c), 0);
	for (uint32_t r = 0; r < world; r++)
		cr_assert_eq(c->node[r], node[r], "seed %lu: rank %u is of node %u, by the rule of %u",
			     (unsigned long)seed, r, c->node[r], node[r]);
	for (uint32_t n = 0; n < NODES; n++)
		cr_assert_eq(assignment_home(c, n), c->nodes[n].has);
}

/* The first plan, and one by which the world grows and ranks are replaced: nobody's ranks are kept together by those. */
Test(assignment_filled, gaps_are_filled_as_if_all_were_asked_for_each_piece)
{
	for (uint64_t turns = 0; turns < TURNS; turns++) {
		uint64_t seed = turns + 1;
		struct assignment c;
		cr_assert_eq(assignment_init(&c, NODES, RANKS_MAX, 1), 0);
		for (uint32_t n = 0; n < NODES; n++) {
			assignment_offer(&c, n, next(&seed, OFFERS_MAX), next(&seed, 4) == 0);
			assignment_avoid(&c, n, next(&seed, 5) == 0);
		}
		assignment_offer(&c, 0, 1 + next(&seed, OFFERS_MAX), false);
		expect_rule(&c, turns);
		for (uint32_t n = 0; n < NODES; n += 1 + next(&seed, 4))
			assignment_claim(&c, n, NULL, 0);
		uint32_t world = c.world;
		for (uint32_t n = 0; n < NODES && assignment_next_world(&c) == world; n++)
			assignment_offer(&c, n, c.nodes[n].offers + 1 + next(&seed, 3), c.nodes[n].spare);
		if (assignment_next_world(&c) > world)
			expect_rule(&c, turns);
		assignment_free(&c);
	}
}
