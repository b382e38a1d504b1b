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
static void lose(struct crew *c, uint32_t rank)
{
	uint32_t left[WANT_MAX], n = 0, node = rank < c->world ? c->node[rank] : CREW_NOBODY;
	if (node == CREW_NOBODY)
		return;
	for (uint32_t r = 0; r < c->world; r++)
		if (c->node[r] == node && r != rank)
			left[n++] = r;
	crew_claim(c, node, left, n);
	crew_offer(c, node, c->nodes[node].offers - 1, c->nodes[node].spare);
}

/* Three nodes of two ranks each have begun, the fourth is a spare if it is named so. */
static void begin(struct crew *c, uint32_t waiting, bool spare)
{
	cr_assert_eq(crew_init(c, 4, 6, 2), 0);
	for (uint32_t n = 0; n < 3; n++)
		crew_offer(c, n, 2, false);
	crew_offer(c, 3, waiting, spare);
	cr_assert_eq(crew_plan(c), 0);
}

static void expect_nodes(const struct crew *c, uint32_t world, const uint32_t *nodes)
{
	cr_assert_eq(c->world, world, "%u", c->world);
	for (uint32_t r = 0; r < world; r++)
		cr_expect_eq(c->node[r], nodes[r], "rank %u is of node %u", r, c->node[r]);
}

static void expect_was(const struct crew *c, const uint32_t *was)
{
	for (uint32_t r = 0; r < c->world; r++)
		cr_expect_eq(c->was[r], was[r], "rank %u was %u", r, c->was[r]);
}

Test(crew, waits_until_all_are_there)
{
	struct crew c;
	cr_assert_eq(crew_init(&c, 3, 4, 2), 0);
	cr_expect_eq(crew_plan(&c), -EAGAIN);
	crew_offer(&c, 2, 2, false);
	cr_expect_eq(crew_state(&c), CREW_WAITING);
	crew_offer(&c, 0, 2, false);
	cr_expect_eq(crew_state(&c), CREW_READY);
	cr_assert_eq(crew_plan(&c), 0);
	cr_expect_eq(crew_state(&c), CREW_SOUND);
	expect_nodes(&c, 4, (uint32_t[]){0, 0, 2, 2});
	expect_was(&c, (uint32_t[]){CREW_NEW, CREW_NEW, CREW_NEW, CREW_NEW});
	crew_free(&c);
}

Test(crew, who_does_not_wait_begins_with_fewer)
{
	struct crew c;
	cr_assert_eq(crew_init(&c, 3, 6, 2), 0);
	crew_offer(&c, 1, 2, false);
	cr_expect_eq(crew_state(&c), CREW_WAITING);
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 2, (uint32_t[]){1, 1});
	cr_expect_eq(crew_state(&c), CREW_SOUND);
	crew_free(&c);
}

Test(crew, a_spare_waits_while_others_do)
{
	struct crew c;
	cr_assert_eq(crew_init(&c, 3, 4, 2), 0);
	crew_offer(&c, 0, 2, true);
	crew_offer(&c, 1, 2, false);
	cr_expect_eq(crew_state(&c), CREW_WAITING, "for the third");
	crew_offer(&c, 2, 2, false);
	cr_expect_eq(crew_state(&c), CREW_READY);
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){1, 1, 2, 2});
	crew_free(&c);
}

Test(crew, a_spare_takes_the_ranks_of_a_lost_node)
{
	struct crew c;
	begin(&c, 2, true);
	crew_offer(&c, 1, 0, false);
	cr_expect_eq(crew_state(&c), CREW_BROKEN);
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 3, 3, 2, 2});
	expect_was(&c, (uint32_t[]){0, 1, CREW_NEW, CREW_NEW, 4, 5});
	crew_free(&c);
}

Test(crew, without_a_spare_the_last_ones_go_into_the_gap)
{
	struct crew c;
	begin(&c, 0, false);
	crew_offer(&c, 0, 0, false);
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){2, 2, 1, 1});
	expect_was(&c, (uint32_t[]){4, 5, 2, 3});
	crew_free(&c);
}

Test(crew, one_lost_process_moves_one)
{
	struct crew c;
	begin(&c, 0, false);
	lose(&c, 2);
	cr_expect_eq(crew_state(&c), CREW_BROKEN);
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 5, (uint32_t[]){0, 0, 2, 1, 2});
	expect_was(&c, (uint32_t[]){0, 1, 5, 3, 4});
	cr_expect_eq(crew_state(&c), CREW_SOUND);
	crew_free(&c);
}

Test(crew, a_node_that_comes_back_makes_it_grow)
{
	struct crew c;
	begin(&c, 0, false);
	crew_offer(&c, 2, 0, false);
	cr_assert_eq(crew_plan(&c), 0);
	cr_expect_eq(crew_state(&c), CREW_SOUND);
	crew_offer(&c, 2, 2, false);
	cr_expect_eq(crew_state(&c), CREW_CHANGEABLE);
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 1, 1, 2, 2});
	expect_was(&c, (uint32_t[]){0, 1, 2, 3, CREW_NEW, CREW_NEW});
	crew_free(&c);
}

Test(crew, below_the_least_it_stays_as_it_is)
{
	struct crew c;
	begin(&c, 0, false);
	crew_offer(&c, 0, 0, false);
	crew_offer(&c, 1, 1, false);
	crew_offer(&c, 2, 0, false);
	cr_expect_eq(crew_plan(&c), -EAGAIN);
	expect_nodes(&c, 6, (uint32_t[]){CREW_NOBODY, CREW_NOBODY, 1, CREW_NOBODY, CREW_NOBODY, CREW_NOBODY});
	crew_offer(&c, 0, 1, false);
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 2, (uint32_t[]){1, 0});
	expect_was(&c, (uint32_t[]){2, CREW_NEW});
	crew_free(&c);
}

Test(crew, a_node_is_let_go)
{
	struct crew c;
	begin(&c, 0, false);
	crew_leave(&c, 0, true);
	cr_expect_eq(crew_state(&c), CREW_CHANGEABLE);
	cr_expect_eq(crew_next_world(&c), 4);
	crew_leave(&c, 0, false);
	cr_expect_eq(crew_state(&c), CREW_SOUND, "it was taken back");
	crew_leave(&c, 0, true);
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 4, (uint32_t[]){2, 2, 1, 1});
	cr_expect_eq(crew_state(&c), CREW_SOUND, "it has nothing any more");
	crew_leave(&c, 1, true);
	crew_leave(&c, 2, true);
	cr_expect_eq(crew_state(&c), CREW_ENDING);
	cr_expect_eq(crew_plan(&c), -EAGAIN);
	expect_nodes(&c, 4, (uint32_t[]){2, 2, 1, 1});
	crew_free(&c);
}

Test(crew, a_spare_takes_the_ranks_of_a_node_that_is_let_go)
{
	struct crew c;
	begin(&c, 2, true);
	crew_leave(&c, 1, true);
	cr_expect_eq(crew_state(&c), CREW_CHANGEABLE);
	cr_expect_eq(crew_next_world(&c), 6);
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 3, 3, 2, 2});
	crew_free(&c);
}

Test(crew, ranks_of_a_lost_node_stay_together)
{
	struct crew c;
	cr_assert_eq(crew_init(&c, 5, 6, 2), 0);
	for (uint32_t n = 0; n < 3; n++)
		crew_offer(&c, n, 2, false);
	cr_assert_eq(crew_plan(&c), 0);
	crew_offer(&c, 0, 3, false); /* no spare, but not for all, and among others */
	crew_offer(&c, 3, 1, false);
	crew_offer(&c, 4, 2, true);
	crew_offer(&c, 1, 0, false);
	cr_expect(crew_keeps(&c));
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 4, 4, 2, 2});
	crew_free(&c);
}

Test(crew, of_two_lost_nodes_each_goes_to_one)
{
	struct crew c;
	cr_assert_eq(crew_init(&c, 5, 6, 2), 0);
	for (uint32_t n = 0; n < 3; n++)
		crew_offer(&c, n, 2, false);
	cr_assert_eq(crew_plan(&c), 0);
	crew_offer(&c, 3, 4, false);
	crew_offer(&c, 4, 2, false);
	crew_offer(&c, 0, 0, false);
	crew_offer(&c, 1, 0, false);
	cr_expect(crew_keeps(&c));
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){4, 4, 3, 3, 2, 2});
	crew_free(&c);
}

Test(crew, a_rank_that_moves_alone_leaves_others_behind)
{
	struct crew c;
	begin(&c, 2, true);
	lose(&c, 3);
	cr_expect_not(crew_keeps(&c));
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 1, 3, 2, 2});
	crew_free(&c);
}

Test(crew, where_memory_is_all_there_is_the_others_go_with_it)
{
	struct crew c;
	begin(&c, 2, true);
	c.whole = true;
	lose(&c, 3);
	cr_expect(crew_keeps(&c));
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 3, 3, 2, 2});
	expect_was(&c, (uint32_t[]){0, 1, CREW_NEW, CREW_NEW, 4, 5});
	cr_expect(c.nodes[1].has == 0 && c.nodes[3].has == 2);
	crew_free(&c);
}

Test(crew, a_process_that_comes_back_keeps_its_place)
{
	struct crew c;
	begin(&c, 2, false);
	lose(&c, 3);
	crew_offer(&c, 1, 2, false);
	cr_expect(crew_keeps(&c));
	cr_assert_eq(crew_plan(&c), 0);
	expect_nodes(&c, 6, (uint32_t[]){0, 0, 1, 1, 2, 2});
	expect_was(&c, (uint32_t[]){0, 1, 2, CREW_NEW, 4, 5});
	crew_free(&c);
}

Test(crew, nobody_is_known_to_keep_what_was_not_claimed)
{
	struct crew c;
	cr_assert_eq(crew_init(&c, 3, 4, 2), 0);
	crew_adopt(&c, 4, 4);
	crew_claim(&c, 1, (uint32_t[]){0, 1}, 2);
	crew_offer(&c, 1, 2, false);
	crew_offer(&c, 2, 2, false);
	cr_expect(crew_unclaimed(&c) && !crew_keeps(&c));
	crew_claim(&c, 0, (uint32_t[]){2, 3}, 2);
	cr_expect_not(crew_unclaimed(&c));
	crew_offer(&c, 0, 0, false);
	cr_expect(crew_keeps(&c));
	crew_free(&c);
}

/* After a restart of whoever plans. */
Test(crew, what_others_have_planned_is_claimed)
{
	struct crew c;
	cr_assert_eq(crew_init(&c, 3, 6, 2), 0);
	crew_adopt(&c, 4, 5);
	cr_expect_eq(crew_state(&c), CREW_BROKEN);
	crew_claim(&c, 2, (uint32_t[]){4, 0}, 2);
	crew_offer(&c, 2, 2, false);
	crew_claim(&c, 1, (uint32_t[]){1, 3, 0, 9}, 4);
	crew_offer(&c, 1, 2, false);
	expect_nodes(&c, 5, (uint32_t[]){2, 1, CREW_NOBODY, 1, 2});
	cr_assert_eq(crew_plan(&c), 0);
	cr_expect_eq(c.number, 5);
	expect_nodes(&c, 4, (uint32_t[]){2, 1, 2, 1});
	expect_was(&c, (uint32_t[]){0, 1, 4, 3});
	crew_free(&c);
}

/* ---- any history ------------------------------------------------------------------------------------------------- */

struct before {
	uint32_t world, node[WANT_MAX], offers;
};

static struct before look(const struct crew *c)
{
	struct before b = {.world = c->world};
	memcpy(b.node, c->node, c->world * sizeof(*c->node));
	for (uint32_t n = 0; n < c->nnodes; n++)
		b.offers += c->nodes[n].leaving ? 0 : c->nodes[n].offers;
	for (uint32_t r = 0; r < c->world; r++)
		if (b.node[r] != CREW_NOBODY && c->nodes[b.node[r]].leaving)
			b.node[r] = CREW_NOBODY;
	return b;
}

/* Every rank has one process, of a node that has offered it; all that were sound go on; no more of them moved than had to. */
static void check(const struct crew *c, const struct before *b)
{
	uint32_t has[NODES_MAX] = {0}, moved = 0, beyond = 0, kept = 0, sound = 0;
	bool seen[WANT_MAX] = {false};
	cr_assert_eq(c->world, b->offers < c->want ? b->offers : c->want);
	for (uint32_t r = 0; r < b->world; r++) {
		sound += b->node[r] != CREW_NOBODY;
		beyond += b->node[r] != CREW_NOBODY && r >= c->world;
	}
	for (uint32_t r = 0; r < c->world; r++) {
		uint32_t was = c->was[r];
		cr_assert_lt(c->node[r], c->nnodes);
		has[c->node[r]]++;
		if (was == CREW_NEW)
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
static bool kept(const struct crew *c, uint32_t world, const uint32_t *home)
{
	for (uint32_t a = 0; a < world; a++)
		for (uint32_t b = 0; b < a; b++)
			if ((home[a] == home[b]) != (c->node[a] == c->node[b]))
				return false;
	return c->world == world;
}

static void something_happens(struct crew *c, uint64_t *seed, uint32_t whole)
{
	uint32_t node = next(seed, c->nnodes), what = next(seed, 5);
	if (what == 4)
		crew_leave(c, node, !c->nodes[node].leaving);
	else if (what == 0)
		crew_offer(c, node, 0, c->nodes[node].spare);
	else if (what == 1 && !whole && c->world)
		lose(c, next(seed, c->world));
	else
		crew_offer(c, node, whole ? whole : next(seed, 9), next(seed, 3) == 0);
}

Test(crew, holds_in_any_history)
{
	uint64_t seed = 1;
	unsigned plans = 0, short_ = 0, moved = 0;
	for (int round = 0; round < 3000; round++) {
		struct crew c;
		uint32_t want = 1 + next(&seed, WANT_MAX);
		cr_assert_eq(crew_init(&c, 1 + next(&seed, NODES_MAX), want, 1 + next(&seed, want)), 0);
		for (int i = 0; i < 40; i++) {
			something_happens(&c, &seed, 0);
			struct before b = look(&c);
			enum crew_state state = crew_state(&c);
			uint32_t home[WANT_MAX], world = c.world;
			bool keeps = crew_keeps(&c);
			memcpy(home, c.home, world * sizeof(*home));
			if (crew_plan(&c)) {
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
			cr_assert_eq(crew_state(&c), CREW_SOUND);
			for (uint32_t r = 0; r < c.world; r++) {
				if (state == CREW_SOUND)
					cr_assert_eq(c.was[r], r, "a sound crew was changed");
				moved += c.was[r] != r && c.was[r] != CREW_NEW;
			}
		}
		crew_free(&c);
	}
	cr_expect(plans && short_ && moved, "%u plans, %u times too few, %u moved", plans, short_, moved);
}

Test(crew, nodes_that_come_and_go_whole_have_blocks)
{
	uint64_t seed = 2;
	for (int round = 0; round < 1000; round++) {
		struct crew c;
		uint32_t each = 1 + next(&seed, 8), nodes = 1 + next(&seed, WANT_MAX / 8);
		cr_assert_eq(crew_init(&c, NODES_MAX, each * nodes, each), 0);
		for (int i = 0; i < 40; i++) {
			something_happens(&c, &seed, each);
			if (crew_plan(&c))
				continue;
			for (uint32_t r = 0; r < c.world; r++)
				cr_assert_eq(c.node[r], c.node[r - r % each], "rank %u of %u each", r, each);
		}
		crew_free(&c);
	}
}
