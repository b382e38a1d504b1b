/* Replicas are compared across nodes: coordinator/save/divergence.c. */
#include "ckptd/coordinator/coordinator_maker.h"

#include "coordinator/save/divergence.h"
#include "format/arena/witness.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { SET = 77, PIECES = 5000 };

static const struct step_id s10 = {10, 1};
static uint64_t held[WORLD][PIECES]; /* what each rank holds of each piece */

static void setup(void)
{
	coord_maker_setup();
	for (uint32_t r = 0; r < WORLD; r++)
		for (uint32_t i = 0; i < PIECES; i++)
			held[r][i] = i * 7919 + 1;
	join_all();
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), s10);
}

TestSuite(coord_divergence, .init = setup, .fini = coord_maker_teardown);

static uint64_t sum(uint32_t rank, uint32_t first, uint32_t n)
{
	uint64_t h = 14695981039346656037u;
	for (uint32_t i = 0; i < n; i++)
		h = (h ^ held[rank][first + i]) * 1099511628211u;
	return h;
}

static void vote(uint32_t node)
{
	struct peer_replica_digests m = {.id = s10};
	for (uint32_t r = node; r < WORLD; r += NODES)
		m.of[m.n++] = (struct peer_replica_digest){SET, sum(r, 0, PIECES), PIECES};
	coord_replica_digests(coord, from(node), &m);
}

static void reach(uint32_t node)
{
	coord_reached(coord, from(node), s10, LEVEL_CAPTURED);
}

static void tell(struct peer_compared *m, uint32_t of, uint64_t is)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->of[i].of == of && m->of[i].sum == is)
			return;
	m->of[m->n++] = (struct peer_sum){of, is};
}

static void answer(uint32_t node)
{
	struct peer_compared m = {.ask = told[node].ask};
	uint32_t width = peer_compare_part(&m.ask);
	for (uint32_t r = node; r < WORLD; r += NODES) {
		for (uint32_t at = 0; m.ask.count > 1 && at < m.ask.count; at += width)
			tell(&m, at / width,
			     sum(r, m.ask.first + at, at + width < m.ask.count ? width : m.ask.count - at));
		if (m.ask.count == 1)
			tell(&m, r, held[r][m.ask.first]);
	}
	snprintf(m.name, sizeof(m.name), "t%u", m.ask.first);
	coord_compared(coord, from(node), &m);
}

/* All nodes answer until there is a finding. */
static void answer_all(void)
{
	for (unsigned turn = 0; turn < 10 && !told[0].failure; turn++)
		for (uint32_t n = 0; n < NODES; n++)
			answer(n);
}

static void capture(void)
{
	for (uint32_t n = 0; n < NODES; n++)
		vote(n);
	for (uint32_t n = 0; n < NODES; n++)
		reach(n);
}

static void expect_finding(const char *text)
{
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].level, LEVEL_PENDING, "it was shown to node %u", n);
		cr_expect_eq(told[n].failure, -EUCLEAN);
		cr_expect_str_eq(told[n].text, text, "%s", told[n].text);
	}
}

Test(coord_divergence, what_is_alike_is_captured_without_a_question)
{
	capture();
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].level == LEVEL_CAPTURED && !told[n].compares && !told[n].failure);
}

Test(coord_divergence, one_rank_is_named_among_all_pieces)
{
	for (uint32_t i = 0; i < PIECES; i += 613) {
		coord_maker_teardown();
		setup();
		held[4][i] ^= 1;
		capture();
		cr_expect_eq(told[0].level, LEVEL_PENDING);
		answer_all();
		char text[80];
		snprintf(text, sizeof(text), "replicas differ: rank 4 deviates from the others in t%u", i);
		expect_finding(text);
		cr_expect_leq(told[0].compares, 4, "it was asked %u times", told[0].compares);
	}
}

Test(coord_divergence, two_ranks_of_one_node_are_named_by_the_majority_of_the_others)
{
	held[1][7] = held[4][7] = 5; /* node 1 holds both: alike, and wrong */
	capture();
	answer_all();
	expect_finding("replicas differ: ranks 1 and 4 deviate from the others in t7");
}

Test(coord_divergence, half_of_the_ranks_are_no_majority)
{
	held[0][7] = held[1][7] = held[5][7] = 5;
	capture();
	answer_all();
	expect_finding("replicas differ in t7: no more than half of the 6 ranks that hold it agree, so none is named");
}

Test(coord_divergence, nodes_that_do_not_take_part_are_not_compared)
{
	held[4][100] ^= 1;
	for (uint32_t n = 0; n < NODES; n++)
		if (n != 1)
			vote(n);
	for (uint32_t n = 0; n < NODES; n++)
		reach(n);
	cr_expect_eq(told[0].level, LEVEL_CAPTURED, "%s", told[0].text);
}

Test(coord_divergence, who_comes_back_in_the_midst_of_it_is_asked_again)
{
	held[2][4999] ^= 1;
	capture();
	answer(0);
	answer(1);
	coord_gone(coord, 2, "it was cut off");
	cr_expect_eq(told[0].failure, 0, "every rank has copied it");
	coord_node_join(coord, (struct coord_from){.node = 2, .epoch = told[2].epoch}, EACH, 1);
	for (uint32_t n = 0; n < NODES; n++)
		vote(n);
	for (uint32_t n = 0; n < NODES; n++)
		reach(n);
	answer_all();
	expect_finding("replicas differ: rank 2 deviates from the others in t4999");
}

Test(coord_divergence, answers_to_other_questions_and_twice_change_nothing)
{
	held[4][9] ^= 1;
	capture();
	struct peer_compared m = {.ask = told[0].ask};
	m.ask.set++;
	for (uint32_t n = 0; n < NODES; n++)
		coord_compared(coord, from(n), &m);
	m.ask = (struct peer_compare){.id = {11, 1}, .set = SET, .count = PIECES};
	coord_compared(coord, from(0), &m);
	for (unsigned i = 0; i < 10; i++)
		answer(0);
	cr_expect_eq(told[0].failure, 0);
	answer_all();
	expect_finding("replicas differ: rank 4 deviates from the others in t9");
}

Test(coord_divergence, what_is_told_again_and_again_is_bounded)
{
	for (unsigned i = 0; i < 2000; i++)
		vote(0);
	for (uint32_t n = 1; n < NODES; n++)
		vote(n);
	for (uint32_t n = 0; n < NODES; n++)
		reach(n);
	cr_expect_eq(told[0].level, LEVEL_CAPTURED);
}

Test(coord_divergence, who_does_not_answer_is_named_and_the_save_fails)
{
	struct step_id id;
	uint32_t node;
	cr_expect_not(coord_overdue(coord, 0, &id, &node), "nothing is asked");
	held[4][9] ^= 1;
	capture();
	answer(0);
	answer(2);
	cr_expect_not(coord_overdue(coord, 60000, &id, &node));
	cr_assert(coord_overdue(coord, 0, &id, &node));
	cr_expect_eq(step_compare(id, s10), 0);
	cr_expect_eq(node, 1);
	coord_give_up(coord, id, "node b");
	expect_finding("replicas differ, and node b has not told in which tensor");
	cr_expect_not(coord_overdue(coord, 0, &id, &node), "it is over");
	answer(1);
	cr_expect_eq(told[0].failure, -EUCLEAN);
}

Test(coord_divergence, who_is_gone_in_the_midst_of_it_is_not_waited_for)
{
	struct step_id id;
	uint32_t node;
	held[4][9] ^= 1;
	capture();
	answer(0);
	answer(1);
	coord_gone(coord, 2, "it was cut off");
	cr_assert(coord_overdue(coord, 0, &id, &node));
	cr_expect_eq(node, UINT32_MAX);
	coord_give_up(coord, id, "a node that is not there");
	cr_expect_eq(told[0].failure, -EUCLEAN);
}

/* Of node and turn, in messages of as many as each takes. */
static void vote_many(uint32_t node, uint32_t n, uint64_t sum_of_last)
{
	struct peer_replica_digests m = {.id = s10};
	for (uint32_t i = 0; i < n; i++) {
		m.of[m.n++] = (struct peer_replica_digest){1000 + i, i + 1 == n ? sum_of_last : i, 3};
		if (m.n == PEER_REPLICA_DIGESTS_MAX || i + 1 == n) {
			coord_replica_digests(coord, from(node), &m);
			m.n = 0;
		}
	}
}

Test(coord_divergence, a_set_that_differs_is_found_among_many_messages)
{
	enum { MANY = WITNESS_SETS_MAX * WIRE_LOCAL_MAX };
	for (uint32_t n = 0; n < NODES; n++)
		vote_many(n, MANY, n == 1);
	for (uint32_t n = 0; n < NODES; n++)
		reach(n);
	cr_expect_eq(told[0].level, LEVEL_PENDING);
	cr_assert_eq(told[0].compares, 1);
	cr_expect_eq(told[0].ask.set, 1000 + MANY - 1);
}

Test(coord_divergence, more_than_can_be_compared_fails_the_save)
{
	vote_many(0, REPLICA_DIGESTS_MAX, 0);
	for (unsigned i = 0; i < 5; i++)
		vote_many(1, REPLICA_DIGESTS_MAX, 0);
	cr_expect_eq(told[0].failure, 0, "they are the same");
	vote_many(2, 3 * REPLICA_DIGESTS_MAX, 0);
	cr_expect_eq(told[0].failure, -E2BIG);
	cr_expect(strstr(told[0].text, "more than 262144 different sets"), "%s", told[0].text);
}

Test(coord_divergence, what_comes_after_it_in_the_same_epoch_is_not_trusted)
{
	struct step_id later = {12, 1}, next = {12, 2};
	held[4][9] ^= 1;
	capture();
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), later);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), later, LEVEL_CAPTURED);
	expect_finding("it comes after step 10, in which replicas differed: go back to an earlier one");
	for (uint32_t n = 0; n < NODES; n++)
		answer(n);
	join(1);
	join(0);
	join(2);
	cr_assert_eq(coord_view(coord).entered, 2);
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), next);
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), next, LEVEL_CAPTURED);
	cr_expect_eq(told[0].level, LEVEL_CAPTURED, "%s", told[0].text);
}

static void reach_step(struct step_id id)
{
	for (uint32_t n = 0; n < NODES; n++)
		coord_reached(coord, from(n), id, LEVEL_CAPTURED);
}

static void vote_alike(struct step_id id)
{
	struct peer_replica_digests m = {.id = id, .n = 1, .of[0] = {SET, 1, PIECES}};
	for (uint32_t n = 0; n < NODES; n++) {
		coord_copied(coord, from(n), id);
		coord_replica_digests(coord, from(n), &m);
	}
}

/* In the later one the owner's flip is everywhere. */
Test(coord_divergence, a_later_one_that_is_digested_first_waits_for_the_earlier_one)
{
	struct step_id later = {12, 1};
	held[4][9] ^= 1;
	vote_alike(later);
	reach_step(later);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].level, LEVEL_PENDING, "step 12 was shown to node %u", n);
	capture();
	answer_all();
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].level, LEVEL_PENDING, "step 12 was shown to node %u", n);
		cr_expect_eq(told[n].failure, -EUCLEAN);
		cr_expect_eq(step_compare(told[n].failed, later), 0);
	}
}

Test(coord_divergence, a_later_one_goes_on_when_the_earlier_one_is_alike)
{
	struct step_id later = {12, 1};
	vote_alike(later);
	reach_step(later);
	cr_expect_eq(told[0].level, LEVEL_PENDING);
	capture();
	cr_expect_eq(told[0].level, LEVEL_CAPTURED);
	cr_expect_eq(coord_newest_captured(coord).step, 12);
}

Test(coord_divergence, a_later_one_goes_on_when_the_earlier_one_has_failed)
{
	struct step_id later = {12, 1};
	vote_alike(later);
	reach_step(later);
	coord_failed(coord, from(1), s10, false, -EBADMSG, "torn");
	cr_expect_eq(coord_newest_captured(coord).step, 12);
}

Test(coord_divergence, what_cannot_be_written_is_compared_all_the_same)
{
	held[4][9] ^= 1;
	coord_ready(coord, from(0), s10);
	coord_spoiled(coord, s10, -ENOSPC, "no space");
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].failure == -ENOSPC && told[n].towards_storage, "node %u lost it", n);
	coord_left(coord, s10, true);
	for (uint32_t n = 0; n < NODES; n++)
		coord_cleared(coord, n, s10);
	cr_expect_eq(place.removed, 1);
	capture();
	cr_expect_eq(told[0].compares, 1);
	told[0].failure = 0;
	answer_all();
	expect_finding("replicas differ: rank 4 deviates from the others in t9");
	cr_expect_not(told[0].towards_storage);
}

Test(coord_divergence, what_cannot_be_written_and_is_alike_stays_in_memory)
{
	coord_ready(coord, from(0), s10);
	coord_made(coord, s10, false);
	coord_failed(coord, from(1), s10, true, -EIO, "disk");
	cr_expect_eq(place.dropped, 1);
	coord_left(coord, s10, false);
	capture();
	for (uint32_t n = 0; n < NODES; n++) {
		cr_expect_eq(told[n].level, LEVEL_CAPTURED);
		cr_expect(told[n].failure == -EIO && told[n].towards_storage);
		coord_cleared(coord, n, s10);
	}
	cr_expect_eq(place.removed, 1);
	cr_expect_eq(place.made, 1);
	coord_ready(coord, from(0), s10);
	cr_expect_eq(place.made, 1, "it is not made again");
}

static void finding(const uint64_t *sums, uint32_t n, const char *want)
{
	struct peer_sum ranks[40];
	char text[WIRE_TEXT_MAX];
	for (uint32_t r = 0; r < n; r++)
		ranks[r] = (struct peer_sum){r, sums[r]};
	coord_divergence_result(ranks, n, "wte", text);
	cr_expect_str_eq(text, want, "%s", text);
}

Test(coord_divergence, sentences, .init = NULL, .fini = NULL)
{
	finding((uint64_t[]){1, 2}, 2, "replicas differ in wte: 2 ranks hold it, and no majority says which is right");
	finding((uint64_t[]){3, 1, 3}, 3, "replicas differ: rank 1 deviates from the others in wte");
	finding((uint64_t[]){3, 1, 2}, 3,
		"replicas differ in wte: no more than half of the 3 ranks that hold it agree, so none is named");
	finding((uint64_t[]){1, 9, 9, 9, 2, 9, 1}, 7,
		"replicas differ: ranks 0, 4 and 6 deviate from the others in wte");
	uint64_t many[40];
	for (uint32_t r = 0; r < 40; r++)
		many[r] = r < 12 ? r : 99;
	finding(many, 40, "replicas differ: ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 others deviate from the others in wte");
}
