#include "coordinator/restore/restore_candidates.h"

#include "base/bytes.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct step_id s10 = {10, 1}, s20 = {20, 1}, s30 = {30, 1}, s5e2 = {5, 2};
static const uint32_t two_each[] = {0, 0, 1, 1, 2, 2};

static struct step_id choose(struct candidates *l)
{
	struct step_id id;
	cr_assert_eq(candidates_choose(l, 6, two_each, &id), 0);
	return id;
}

static void expect(struct candidates *l, struct step_id due)
{
	struct step_id id = choose(l);
	cr_expect_eq(step_compare(id, due), 0, "step %lu epoch %u", (unsigned long)id.step, id.epoch);
}

Test(candidates, without_anything_nothing_is_chosen)
{
	struct candidates l = {0};
	expect(&l, (struct step_id){0});
	cr_expect(candidates_is_empty(&l));
	candidates_clear(&l);
}

Test(candidates, the_newest_step_of_which_every_rank_has_a_copy_somewhere)
{
	struct candidates l = {0};
	for (uint32_t node = 0; node < 3; node++)
		candidates_add_memory(&l, node, s10);
	candidates_add_memory(&l, 0, s20);
	candidates_add_memory(&l, 1, s20);
	candidates_add_copy(&l, 0, 4, s20); /* of one of the two ranks of node 2 */
	expect(&l, s10);
	struct candidates_gap gaps[2];
	cr_expect_eq(candidates_gaps(&l, 6, two_each, s10, (struct step_id){0}, gaps, 2), 1u);
	cr_expect(!step_compare(gaps[0].id, s20) && gaps[0].rank == 5);
	cr_expect_eq(candidates_gaps(&l, 6, two_each, s20, (struct step_id){0}, gaps, 2), 0u, "none is newer");
	candidates_add_copy(&l, 1, 5, s20);
	expect(&l, s20);
	candidates_add_stored(&l, s10);
	expect(&l, s20);
	candidates_add_stored(&l, s30);
	expect(&l, s30);
	candidates_clear(&l);
}

Test(candidates, a_later_epoch_is_newer_whatever_its_step)
{
	struct candidates l = {0};
	candidates_add_stored(&l, s30);
	candidates_add_stored(&l, s5e2);
	expect(&l, s5e2);
	candidates_clear(&l);
}

Test(candidates, gaps_are_told_once_and_the_newest_first)
{
	struct candidates l = {0};
	struct candidates_gap gaps[4];
	for (uint64_t step = 1; step <= 5; step++)
		candidates_add_memory(&l, 0, (struct step_id){step, 1});
	candidates_pass_over(&l, (struct step_id){3, 1});
	cr_expect_eq(candidates_gaps(&l, 6, two_each, (struct step_id){0}, (struct step_id){0}, gaps, 4), 4u);
	cr_expect(gaps[0].id.step == 5 && gaps[1].id.step == 4 && gaps[2].id.step == 2 && gaps[3].id.step == 1);
	cr_expect_eq(gaps[0].rank, 2u);
	cr_expect_eq(candidates_gaps(&l, 6, two_each, (struct step_id){1, 1}, (struct step_id){4, 1}, gaps, 4), 1u);
	cr_expect_eq(gaps[0].id.step, 2u);
	cr_expect_eq(candidates_gaps(&l, 6, two_each, (struct step_id){0}, (struct step_id){0}, gaps, 2), 2u);
	candidates_clear(&l);
}

Test(candidates, what_is_passed_over_is_not_chosen_again_from_anywhere)
{
	struct candidates l = {0};
	candidates_add_stored(&l, s30);
	for (uint32_t node = 0; node < 3; node++)
		candidates_add_memory(&l, node, s30);
	candidates_add_stored(&l, s10);
	candidates_pass_over(&l, s30);
	expect(&l, s10);
	candidates_pass_over(&l, s10);
	expect(&l, (struct step_id){0});
	candidates_clear(&l);
}

/* Whether a step was marked healthy only its memory and storage say. */
Test(candidates, copies_alone_can_be_left_out)
{
	struct candidates l = {0};
	uint32_t node;
	for (uint32_t rank = 0; rank < 6; rank++) {
		candidates_add_copy(&l, 1, rank, s30); /* nobody else has it */
		candidates_add_copy(&l, 2, rank, s10);
	}
	candidates_add_memory(&l, 0, s20); /* and the other four ranks' part is copied */
	for (uint32_t rank = 2; rank < 6; rank++)
		candidates_add_copy(&l, 0, rank, s20);
	candidates_add_stored(&l, s10);
	expect(&l, s30);
	candidates_drop_copies_alone(&l);
	expect(&l, s20);
	struct candidates_gap gaps[2];
	cr_expect_eq(candidates_gaps(&l, 6, two_each, s20, (struct step_id){0}, gaps, 2), 0u, "nor is it told of");
	cr_expect_eq(candidates_holders(&l, s30, 0, &node, 1), 0);
	cr_expect_eq(candidates_holders(&l, s20, 2, &node, 1), 1, "of others the copies stay");
	cr_expect_eq(candidates_holders(&l, s10, 2, &node, 1), 1);
	candidates_pass_over(&l, s20);
	expect(&l, s10);
	candidates_pass_over(&l, s10);
	candidates_drop_copies_alone(&l);
	expect(&l, (struct step_id){0});
	candidates_clear(&l);
	candidates_drop_copies_alone(&l);
	cr_expect(candidates_is_empty(&l));
}

Test(candidates, holders_are_named_once_each)
{
	struct candidates l = {0};
	uint32_t nodes[3] = {0};
	candidates_add_copy(&l, 2, 4, s20);
	candidates_add_copy(&l, 0, 4, s20);
	candidates_add_copy(&l, 2, 4, s20);
	candidates_add_copy(&l, 1, 4, s10);
	candidates_add_copy(&l, 1, 5, s20);
	cr_expect_eq(candidates_holders(&l, s20, 4, nodes, 3), 2);
	cr_expect_eq(nodes[0], 0);
	cr_expect_eq(nodes[1], 2);
	cr_expect_eq(candidates_holders(&l, s20, 4, nodes, 1), 1);
	cr_expect_eq(candidates_holders(&l, s30, 4, nodes, 3), 0);
	cr_expect(!candidates_is_stored(&l, s20));
	candidates_add_stored(&l, s20);
	cr_expect(candidates_is_stored(&l, s20));
	candidates_clear(&l);
}

/* ---- against the obvious way ------------------------------------------------------------------------------------- */

enum { RANKS = 12, NODES = 5, STEPS = 6 };

struct model {
	bool memory[NODES][STEPS], copy[NODES][RANKS][STEPS], stored[STEPS], passed_over[STEPS];
	uint32_t owners[RANKS];
};

static struct step_id id_of(unsigned s)
{
	return (struct step_id){.step = 10 + 7 * (s % 3), .epoch = 1 + s / 3};
}

static bool can_have(const struct model *m, uint32_t rank, unsigned s)
{
	bool found = m->stored[s] || m->memory[m->owners[rank]][s];
	for (uint32_t n = 0; n < NODES; n++)
		found |= m->copy[n][rank][s];
	return found;
}

static struct step_id obvious(const struct model *m)
{
	for (unsigned s = STEPS; s-- > 0;) {
		bool all = !m->passed_over[s];
		for (uint32_t r = 0; all && r < RANKS; r++)
			all = can_have(m, r, s);
		if (all)
			return id_of(s);
	}
	return (struct step_id){0};
}

static uint64_t state;

static bool chance(unsigned percent)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (state >> 33) % 100 < percent;
}

/* Entered in any order: by node, and steps backwards or forwards. */
static void enter(struct candidates *l, struct model *m, unsigned s)
{
	for (uint32_t n = 0; n < NODES; n++) {
		if ((m->memory[n][s] = chance(60)))
			candidates_add_memory(l, n, id_of(s));
		for (uint32_t r = 0; r < RANKS; r++)
			if ((m->copy[n][r][s] = chance(15)))
				candidates_add_copy(l, n, r, id_of(s));
	}
	if ((m->stored[s] = chance(15)))
		candidates_add_stored(l, id_of(s));
	if ((m->passed_over[s] = chance(15)))
		candidates_pass_over(l, id_of(s));
}

Test(candidates, chooses_as_the_obvious_way_does)
{
	unsigned found = 0, older = 0;
	for (state = 1; state < 3000; state++) {
		uint64_t seed = state;
		struct candidates l = {0};
		struct model m = {0};
		struct step_id id;
		for (uint32_t r = 0; r < RANKS; r++)
			m.owners[r] = chance(50) ? r % NODES : r / 3;
		bool backwards = chance(50);
		for (unsigned s = 0; s < STEPS; s++)
			enter(&l, &m, backwards ? STEPS - 1 - s : s);
		cr_assert_eq(candidates_choose(&l, RANKS, m.owners, &id), 0);
		struct step_id due = obvious(&m);
		cr_assert_eq(step_compare(id, due), 0, "seed %lu", (unsigned long)seed);
		found += id.epoch != 0;
		older += id.epoch && step_compare(id, id_of(STEPS - 1)) != 0;
		candidates_clear(&l);
		state = seed;
	}
	cr_expect_gt(found, 1000);
	cr_expect_gt(older, 500);
}
