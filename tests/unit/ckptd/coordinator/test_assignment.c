#include "coordinator/assignment.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WANT_MAX = 64, NODES_MAX = 12 };

static uint32_t next(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((*seed >> 33) % n);
}

/* The rank's process is lost, and its node does not replace it. */
static void lose(struct assignment *c, uint32_t rank)
{
	uint32_t left[WANT_MAX], n = 0, node = rank < c->world ? c->node[rank] : ASSIGNMENT_NOBODY;
	if (node == ASSIGNMENT_NOBODY)
		return;
	for (uint32_t r = 0; r < c->world; r++)
		if (c->node[r] == node && r != rank)
			left[n++] = r;
	assignment_claim(c, node, left, n);
	assignment_offer(c, node, c->nodes[node].offers - 1, c->nodes[node].spare);
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

static void expect_was(const struct assignment *c, const uint32_t *was)
{
	for (uint32_t r = 0; r < c->world; r++)
		cr_expect_eq(c->was[r], was[r], "rank %u was %u", r, c->was[r]);
}

Test(assignment, waits_until_all_are_there)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 3, 4, 2), 0);
	cr_expect_eq(assignment_plan(&c), -EAGAIN);
	assignment_offer(&c, 2, 2, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_WAITING);
	assignment_offer(&c, 0, 2, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_READY);
	cr_assert_eq(assignment_plan(&c), 0);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_SOUND);
	expect_nodes(&c, 4, (uint32_t[]){0, 0, 2, 2});
	expect_was(&c, (uint32_t[]){ASSIGNMENT_NEW, ASSIGNMENT_NEW, ASSIGNMENT_NEW, ASSIGNMENT_NEW});
	assignment_free(&c);
}

Test(assignment, who_does_not_wait_begins_with_fewer)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 3, 6, 2), 0);
	assignment_offer(&c, 1, 2, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_WAITING);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 2, (uint32_t[]){1, 1});
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_SOUND);
	assignment_free(&c);
}

Test(assignment, a_spare_waits_while_others_do)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 3, 4, 2), 0);
	assignment_offer(&c, 0, 2, true);
	assignment_offer(&c, 1, 2, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_WAITING, "for the third");
	assignment_offer(&c, 2, 2, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_READY);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){1, 1, 2, 2});
	assignment_free(&c);
}

Test(assignment, a_spare_takes_the_ranks_of_a_lost_node)
{
	struct assignment c;
	begin(&c, 2, true);
	assignment_offer(&c, 1, 0, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_BROKEN);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 3, 3, 2, 2});
	expect_was(&c, (uint32_t[]){0, 1, ASSIGNMENT_NEW, ASSIGNMENT_NEW, 4, 5});
	assignment_free(&c);
}

Test(assignment, without_a_spare_the_last_ones_go_into_the_gap)
{
	struct assignment c;
	begin(&c, 0, false);
	assignment_offer(&c, 0, 0, false);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){2, 2, 1, 1});
	expect_was(&c, (uint32_t[]){4, 5, 2, 3});
	assignment_free(&c);
}

Test(assignment, one_lost_process_moves_one)
{
	struct assignment c;
	begin(&c, 0, false);
	lose(&c, 2);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_BROKEN);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 5, (uint32_t[]){0, 0, 2, 1, 2});
	expect_was(&c, (uint32_t[]){0, 1, 5, 3, 4});
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_SOUND);
	assignment_free(&c);
}

Test(assignment, a_node_that_comes_back_makes_it_grow)
{
	struct assignment c;
	begin(&c, 0, false);
	assignment_offer(&c, 2, 0, false);
	cr_assert_eq(assignment_plan(&c), 0);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_SOUND);
	assignment_offer(&c, 2, 2, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_CHANGEABLE);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 1, 1, 2, 2});
	expect_was(&c, (uint32_t[]){0, 1, 2, 3, ASSIGNMENT_NEW, ASSIGNMENT_NEW});
	assignment_free(&c);
}

Test(assignment, below_the_least_it_stays_as_it_is)
{
	struct assignment c;
	begin(&c, 0, false);
	assignment_offer(&c, 0, 0, false);
	assignment_offer(&c, 1, 1, false);
	assignment_offer(&c, 2, 0, false);
	cr_expect_eq(assignment_plan(&c), -EAGAIN);
	expect_nodes(&c, 6,
		     (uint32_t[]){ASSIGNMENT_NOBODY, ASSIGNMENT_NOBODY, 1, ASSIGNMENT_NOBODY, ASSIGNMENT_NOBODY,
				  ASSIGNMENT_NOBODY});
	assignment_offer(&c, 0, 1, false);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 2, (uint32_t[]){1, 0});
	expect_was(&c, (uint32_t[]){2, ASSIGNMENT_NEW});
	assignment_free(&c);
}

Test(assignment, a_node_is_let_go)
{
	struct assignment c;
	begin(&c, 0, false);
	assignment_leave(&c, 0, true);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_CHANGEABLE);
	cr_expect_eq(assignment_next_world(&c), 4);
	assignment_leave(&c, 0, false);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_SOUND, "it was taken back");
	assignment_leave(&c, 0, true);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){2, 2, 1, 1});
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_SOUND, "it has nothing any more");
	assignment_leave(&c, 1, true);
	assignment_leave(&c, 2, true);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_ENDING);
	cr_expect_eq(assignment_plan(&c), -EAGAIN);
	expect_nodes(&c, 4, (uint32_t[]){2, 2, 1, 1});
	assignment_free(&c);
}

Test(assignment, a_spare_takes_the_ranks_of_a_node_that_is_let_go)
{
	struct assignment c;
	begin(&c, 2, true);
	assignment_leave(&c, 1, true);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_CHANGEABLE);
	cr_expect_eq(assignment_next_world(&c), 6);
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 3, 3, 2, 2});
	assignment_free(&c);
}

Test(assignment, ranks_of_a_lost_node_stay_together)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 5, 6, 2), 0);
	for (uint32_t n = 0; n < 3; n++)
		assignment_offer(&c, n, 2, false);
	cr_assert_eq(assignment_plan(&c), 0);
	assignment_offer(&c, 0, 3, false); /* no spare, but not for all, and among others */
	assignment_offer(&c, 3, 1, false);
	assignment_offer(&c, 4, 2, true);
	assignment_offer(&c, 1, 0, false);
	cr_expect(assignment_keeps(&c));
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 4, 4, 2, 2});
	assignment_free(&c);
}

Test(assignment, of_two_lost_nodes_each_goes_to_one)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 5, 6, 2), 0);
	for (uint32_t n = 0; n < 3; n++)
		assignment_offer(&c, n, 2, false);
	cr_assert_eq(assignment_plan(&c), 0);
	assignment_offer(&c, 3, 4, false);
	assignment_offer(&c, 4, 2, false);
	assignment_offer(&c, 0, 0, false);
	assignment_offer(&c, 1, 0, false);
	cr_expect(assignment_keeps(&c));
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){4, 4, 3, 3, 2, 2});
	assignment_free(&c);
}

Test(assignment, a_rank_that_moves_alone_leaves_others_behind)
{
	struct assignment c;
	begin(&c, 2, true);
	lose(&c, 3);
	cr_expect_not(assignment_keeps(&c));
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 1, 3, 2, 2});
	assignment_free(&c);
}

Test(assignment, where_memory_is_all_there_is_the_others_go_with_it)
{
	struct assignment c;
	begin(&c, 2, true);
	c.whole = true;
	lose(&c, 3);
	cr_expect(assignment_keeps(&c));
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 3, 3, 2, 2});
	expect_was(&c, (uint32_t[]){0, 1, ASSIGNMENT_NEW, ASSIGNMENT_NEW, 4, 5});
	cr_expect(c.nodes[1].has == 0 && c.nodes[3].has == 2);
	assignment_free(&c);
}

Test(assignment, a_process_that_comes_back_keeps_its_place)
{
	struct assignment c;
	begin(&c, 2, false);
	lose(&c, 3);
	assignment_offer(&c, 1, 2, false);
	cr_expect(assignment_keeps(&c));
	cr_assert_eq(assignment_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 1, 1, 2, 2});
	expect_was(&c, (uint32_t[]){0, 1, 2, ASSIGNMENT_NEW, 4, 5});
	assignment_free(&c);
}

Test(assignment, nobody_is_known_to_keep_what_was_not_claimed)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 3, 4, 2), 0);
	assignment_adopt(&c, 4, 4);
	assignment_claim(&c, 1, (uint32_t[]){0, 1}, 2);
	assignment_offer(&c, 1, 2, false);
	assignment_offer(&c, 2, 2, false);
	cr_expect(assignment_unclaimed(&c) && !assignment_keeps(&c));
	assignment_claim(&c, 0, (uint32_t[]){2, 3}, 2);
	cr_expect_not(assignment_unclaimed(&c));
	assignment_offer(&c, 0, 0, false);
	cr_expect(assignment_keeps(&c));
	assignment_free(&c);
}

/* After a restart of whoever plans. */
Test(assignment, what_others_have_planned_is_claimed)
{
	struct assignment c;
	cr_assert_eq(assignment_init(&c, 3, 6, 2), 0);
	assignment_adopt(&c, 4, 5);
	cr_expect_eq(assignment_state(&c), ASSIGNMENT_BROKEN);
	assignment_claim(&c, 2, (uint32_t[]){4, 0}, 2);
	assignment_offer(&c, 2, 2, false);
	assignment_claim(&c, 1, (uint32_t[]){1, 3, 0, 9}, 4);
	assignment_offer(&c, 1, 2, false);
	expect_nodes(&c, 5, (uint32_t[]){2, 1, ASSIGNMENT_NOBODY, 1, 2});
	cr_assert_eq(assignment_plan(&c), 0);
	cr_expect_eq(c.number, 5);
	expect_nodes(&c, 4, (uint32_t[]){2, 1, 2, 1});
	expect_was(&c, (uint32_t[]){0, 1, 4, 3});
	assignment_free(&c);
}

/* ---- any history ------------------------------------------------------------------------------------------------- */

struct before {
	uint32_t world, node[WANT_MAX], offers;
};

static struct before look(const struct assignment *c)
{
	struct before b = {.world = c->world};
	memcpy(b.node, c->node, c->world * sizeof(*c->node));
	for (uint32_t n = 0; n < c->nnodes; n++)
		b.offers += c->nodes[n].leaving ? 0 : c->nodes[n].offers;
	for (uint32_t r = 0; r < c->world; r++)
		if (b.node[r] != ASSIGNMENT_NOBODY && c->nodes[b.node[r]].leaving)
			b.node[r] = ASSIGNMENT_NOBODY;
	return b;
}

/* Every rank has one process, of a node that has offered it; all that were sound go on; no more of them moved than had to. */
static void check(const struct assignment *c, const struct before *b)
{
	uint32_t has[NODES_MAX] = {0}, moved = 0, beyond = 0, kept = 0, sound = 0;
	bool seen[WANT_MAX] = {false};
	cr_assert_eq(c->world, b->offers < c->want ? b->offers : c->want);
	for (uint32_t r = 0; r < b->world; r++) {
		sound += b->node[r] != ASSIGNMENT_NOBODY;
		beyond += b->node[r] != ASSIGNMENT_NOBODY && r >= c->world;
	}
	for (uint32_t r = 0; r < c->world; r++) {
		uint32_t was = c->was[r];
		cr_assert_lt(c->node[r], c->nnodes);
		has[c->node[r]]++;
		if (was == ASSIGNMENT_NEW)
			continue;
		cr_assert(was < b->world && !seen[was] && b->node[was] == c->node[r], "rank %u was %u", r, was);
		seen[was] = true;
		kept++;
		moved += was != r;
	}
	for (uint32_t n = 0; n < c->nnodes; n++) {
		cr_assert_eq(has[n], c->nodes[n].has);
		cr_assert_leq(has[n], c->nodes[n].offers);
	}
	cr_assert_eq(kept, sound, "%u of %u sound processes go on", kept, sound);
	cr_assert_eq(moved, beyond, "%u moved, %u had to", moved, beyond);
}

/* Whether who shared a node shares one still, and with nobody else. */
static bool kept(const struct assignment *c, uint32_t world, const uint32_t *home)
{
	for (uint32_t a = 0; a < world; a++)
		for (uint32_t b = 0; b < a; b++)
			if ((home[a] == home[b]) != (c->node[a] == c->node[b]))
				return false;
	return c->world == world;
}

static void something_happens(struct assignment *c, uint64_t *seed, uint32_t whole)
{
	uint32_t node = next(seed, c->nnodes), what = next(seed, 5);
	if (what == 4)
		assignment_leave(c, node, !c->nodes[node].leaving);
	else if (what == 0)
		assignment_offer(c, node, 0, c->nodes[node].spare);
	else if (what == 1 && !whole && c->world)
		lose(c, next(seed, c->world));
	else
		assignment_offer(c, node, whole ? whole : next(seed, 9), next(seed, 3) == 0);
}

Test(assignment, holds_in_any_history)
{
	uint64_t seed = 1;
	unsigned plans = 0, short_ = 0, moved = 0;
	for (int round = 0; round < 3000; round++) {
		struct assignment c;
		uint32_t want = 1 + next(&seed, WANT_MAX);
		cr_assert_eq(assignment_init(&c, 1 + next(&seed, NODES_MAX), want, 1 + next(&seed, want)), 0);
		for (int i = 0; i < 40; i++) {
			something_happens(&c, &seed, 0);
			struct before b = look(&c);
			enum assignment_state state = assignment_state(&c);
			uint32_t home[WANT_MAX], world = c.world;
			bool keeps = assignment_keeps(&c);
			memcpy(home, c.home, world * sizeof(*home));
			if (assignment_plan(&c)) {
				cr_assert_not(keeps);
				cr_assert_lt(b.offers, c.least);
				cr_assert_eq(c.world, b.world);
				for (uint32_t r = 0; r < c.world; r++)
					cr_assert(c.node[r] == b.node[r] || c.nodes[c.node[r]].leaving);
				short_++;
				continue;
			}
			plans++;
			check(&c, &b);
			cr_assert_eq(keeps, world && kept(&c, world, home));
			cr_assert_eq(assignment_state(&c), ASSIGNMENT_SOUND);
			for (uint32_t r = 0; r < c.world; r++) {
				if (state == ASSIGNMENT_SOUND)
					cr_assert_eq(c.was[r], r, "a sound assignment was changed");
				moved += c.was[r] != r && c.was[r] != ASSIGNMENT_NEW;
			}
		}
		assignment_free(&c);
	}
	cr_expect(plans && short_ && moved, "%u plans, %u times too few, %u moved", plans, short_, moved);
}

Test(assignment, nodes_that_come_and_go_whole_have_blocks)
{
	uint64_t seed = 2;
	for (int round = 0; round < 1000; round++) {
		struct assignment c;
		uint32_t each = 1 + next(&seed, 8), nodes = 1 + next(&seed, WANT_MAX / 8);
		cr_assert_eq(assignment_init(&c, NODES_MAX, each * nodes, each), 0);
		for (int i = 0; i < 40; i++) {
			something_happens(&c, &seed, each);
			if (assignment_plan(&c))
				continue;
			for (uint32_t r = 0; r < c.world; r++)
				cr_assert_eq(c.node[r], c.node[r - r % each], "rank %u of %u each", r, each);
		}
		assignment_free(&c);
	}
}
