/* Each node reports how far its ranks have come: who is late again and again, on whatever node, is told to all nodes. */
#include "ckptd/coordinator/coordinator_maker.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

static struct peer_pace at[NODES];

static void begin(void)
{
	for (uint32_t n = 0; n < NODES; n++) {
		at[n] = (struct peer_pace){.clock_ns = (n + 1) << 20, .n = EACH};
		for (uint32_t i = 0; i < EACH; i++)
			at[n].of[i].rank = n + i * NODES;
	}
}

static void setup(void)
{
	coord_maker_setup();
	join_all();
	begin();
}

TestSuite(coord_pace, .init = setup, .fini = coord_maker_teardown);

static void say(uint32_t node)
{
	coord_input(coord, from(node), &(struct peer_report){.type = PEER_PACE, .pace = at[node]});
}

/* Rounds of 6 s and 60 steps: half of the time a rank waits, and the late ones do not. */
static void pass(unsigned rounds, uint64_t late)
{
	for (; rounds; rounds--)
		for (uint32_t n = 0; n < NODES; n++) {
			at[n].clock_ns += 6 * CLOCK_NS_PER_S;
			for (uint32_t i = 0; i < EACH; i++) {
				at[n].of[i].step += 60;
				at[n].of[i].left += 60;
				at[n].of[i].waited_ns +=
					late >> at[n].of[i].rank & 1 ? CLOCK_NS_PER_S / 10 : 3 * CLOCK_NS_PER_S;
			}
			say(n);
		}
}

/* All nodes were told the same, but for the own parts: each was told those of its ranks. */
static const struct peer_stragglers *expect_alike(void)
{
	for (uint32_t n = 0; n < NODES; n++) {
		const struct peer_stragglers *m = &told[n].stragglers;
		cr_expect_eq(told[n].paces, told[0].paces, "node %u", n);
		cr_expect(m->n == told[0].stragglers.n && !memcmp(m->of, told[0].stragglers.of, sizeof(m->of)),
			  "node %u", n);
		cr_assert_eq(m->nown, (uint32_t)EACH, "node %u", n);
		for (uint32_t i = 0; i < EACH; i++)
			cr_expect_eq(m->own[i].rank, at[n].of[i].rank, "node %u", n);
	}
	return &told[0].stragglers;
}

Test(coord_pace, the_rank_that_is_late_is_told_with_its_node)
{
	pass(20, 1u << 4);
	const struct peer_stragglers *m = expect_alike();
	cr_assert_eq(m->n, 1u);
	cr_expect_eq(m->epoch, 1u);
	cr_expect(!m->of[0].whole && m->of[0].rank == 4 && m->of[0].node == 1);
	cr_expect(m->of[0].ratio > 1900 && m->of[0].ratio < 2100, "%u", m->of[0].ratio);
	const struct peer_own_part *waits = &m->own[0], *late = &told[1].stragglers.own[1];
	cr_expect(!waits->late && waits->own > 490000 && waits->own < 510000 && !waits->cost, "%u", waits->own);
	cr_expect(late->late && late->rank == 4 && late->own > 950000, "%u", late->own);
	cr_expect(late->cost > 450000 && late->cost < 500000, "%u", late->cost);
}

Test(coord_pace, a_node_that_is_late_is_told_as_a_node)
{
	pass(20, 1u << 1 | 1u << 4);
	const struct peer_stragglers *m = expect_alike();
	cr_assert_eq(m->n, 1u);
	cr_expect(m->of[0].whole && m->of[0].node == 1 && !m->of[0].rank);
	pass(40, 0);
	cr_expect_eq(expect_alike()->n, 0u);
}

Test(coord_pace, of_another_epoch_nothing_is_left)
{
	pass(20, 1u << 4);
	cr_assert_eq(told[0].stragglers.n, 1u);
	uint32_t times = told[0].paces;
	coord_raise(coord, "a test");
	pass(3, 1u << 4);
	cr_expect_eq(told[0].paces, times, "nobody has entered it");
	cr_expect_eq(coord->straggling.epoch, 0u);
}

Test(coord_pace, a_node_that_tells_of_ranks_that_it_has_not_begins_all_anew)
{
	pass(20, 1u << 4);
	cr_assert_eq(told[0].stragglers.n, 1u);
	uint32_t rank = at[2].of[1].rank;
	at[2].of[1].rank = 4;
	say(2);
	at[2].of[1].rank = rank;
	pass(3, 1u << 4);
	cr_expect_eq(expect_alike()->n, 0u);
}

Test(coord_pace, counters_of_any_kind_do_no_harm)
{
	at[0].of[0].waited_ns = UINT64_MAX;
	at[1].of[0].step = UINT64_MAX;
	at[2].clock_ns = UINT64_MAX;
	pass(20, 0);
	cr_expect_eq(expect_alike()->n, 0u);
}
