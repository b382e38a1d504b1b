#include "machine/peer_check.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define MS 1000000ull
#define S (1000 * MS)

static struct peer_check p;
static uint64_t now = 1;

static void answer(const char *name, uint64_t trip_ns, int64_t ahead_ns)
{
	peer_check_take(&p, ++now, name, trip_ns, ahead_ns);
}

static int64_t ahead(void)
{
	return peer_check_clock(&p).ahead_ns;
}

/* Names of those that are far. */
static const char *far(void)
{
	static char names[PEER_CHECK_MAX * NAME_NODE_MAX];
	uint64_t trip, others;
	names[0] = 0;
	for (unsigned i = 0; i < PEER_CHECK_MAX; i++)
		if (peer_check_is_far(&p, i, &trip, &others))
			strncat(names, p.peers[i].name, sizeof(names) - strlen(names) - 1);
	return names;
}

static unsigned far_from(void)
{
	uint64_t least;
	return peer_check_far_from(&p, &least);
}

static void look(uint64_t a, uint64_t b, uint64_t c)
{
	answer("a", a, 0);
	answer("b", b, 0);
	answer("c", c, 0);
}

Test(peer_check, without_answers_nothing_is_known)
{
	cr_assert_eq(peer_check_clock(&p).n, 0u);
	cr_assert_str_eq(far(), "");
}

Test(peer_check, one_node_is_all_there_is)
{
	answer("a", 2 * MS, 5 * (int64_t)S);
	struct clock_check is = peer_check_clock(&p);
	cr_assert_eq(is.n, 1u);
	cr_assert_eq(is.ahead_ns, -5 * (int64_t)S);
	cr_assert_eq(is.uncertain_ns, MS);
}

Test(peer_check, one_of_two_that_lies_moves_nothing)
{
	answer("a", MS, 1000);
	answer("b", MS, INT64_MAX);
	cr_assert_eq(ahead(), -1000);
	answer("b", MS, -INT64_MAX);
	cr_assert_eq(ahead(), -1000);
}

Test(peer_check, of_two_that_agree_our_own_clock_is_the_one_that_is_wrong)
{
	answer("a", MS, -7 * (int64_t)S);
	answer("b", MS, -8 * (int64_t)S);
	cr_assert_eq(ahead(), 7 * (int64_t)S);
}

Test(peer_check, a_minority_that_lies_moves_it_within_what_the_others_say)
{
	const int64_t lies[] = {INT64_MAX, -INT64_MAX, 0, (int64_t)S};
	for (unsigned i = 0; i < 16; i++) {
		answer("a", MS, 100);
		answer("b", MS, 200);
		answer("c", MS, 300);
		answer("liar", MS, lies[i % 4]);
		answer("its friend", MS, lies[i / 4]);
		cr_assert_geq(ahead(), -300);
		cr_assert_leq(ahead(), -100);
	}
}

Test(peer_check, a_node_that_does_not_answer_is_forgotten)
{
	answer("a", MS, 9);
	uint64_t since = ++now;
	answer("b", MS, 5);
	peer_check_forget(&p, since);
	cr_assert_eq(peer_check_clock(&p).n, 1u);
	cr_assert_eq(ahead(), -5);
}

Test(peer_check, of_too_many_those_count_that_have_answered_last)
{
	for (unsigned i = 0; i < 3 * PEER_CHECK_MAX; i++) {
		char name[NAME_NODE_MAX];
		snprintf(name, sizeof(name), "n%u", i);
		answer(name, MS, i < 2 * PEER_CHECK_MAX ? (int64_t)S : 0);
	}
	cr_assert_eq(peer_check_clock(&p).n, (unsigned)PEER_CHECK_MAX);
	cr_assert_eq(ahead(), 0);
}

Test(peer_check, a_node_is_far_when_each_round_trip_is)
{
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++) {
		cr_assert_str_eq(far(), "", "after %u", i);
		look(MS, 40 * MS, MS);
	}
	cr_assert_str_eq(far(), "b");
	look(MS, MS, MS);
	cr_assert_str_eq(far(), "", "one short one is enough");
}

Test(peer_check, single_long_round_trips_say_nothing)
{
	for (unsigned i = 0; i < 300; i++) {
		look(i % 3 ? MS : 900 * MS, i % 3 == 1 ? MS : 700 * MS, i % 5 ? 2 * MS : 4000 * MS);
		cr_assert_str_eq(far(), "", "look %u", i);
	}
}

Test(peer_check, a_short_time_is_not_far_however_much_shorter_others_are)
{
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++)
		look(MS / 50, 4 * MS, MS / 50);
	cr_assert_str_eq(far(), "");
}

Test(peer_check, without_others_to_compare_with_nothing_is_far)
{
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++)
		answer("a", 4000 * MS, 0);
	cr_assert_str_eq(far(), "");
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++)
		answer("b", 4000 * MS, 0);
	cr_assert_str_eq(far(), "", "all are: there is nothing that they are far from");
}

Test(peer_check, a_node_whose_round_trips_are_all_long_is_far_itself)
{
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++) {
		cr_assert_eq(far_from(), 0u, "after %u", i);
		look(40 * MS, 900 * MS, 30 * MS);
	}
	cr_assert_eq(far_from(), 3u);
	cr_assert_str_eq(far(), "", "no peer is to blame");
	answer("b", MS, 0);
	cr_assert_eq(far_from(), 0u, "one is near");
}

Test(peer_check, a_peer_that_is_new_counts_when_it_is_near)
{
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++)
		look(40 * MS, 41 * MS, 42 * MS);
	answer("new", 40 * MS, 0);
	cr_assert_eq(far_from(), 3u);
	answer("new", MS, 0);
	cr_assert_eq(far_from(), 0u);
}

Test(peer_check, one_peer_alone_may_be_the_far_one)
{
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++)
		answer("a", 4000 * MS, 0);
	cr_assert_eq(far_from(), 0u);
}

/* Answers come one after another, and so does what they show. */
Test(peer_check, while_a_link_becomes_slow_and_fast_again_no_peer_is_named)
{
	const char *const names[] = {"a", "b", "c"};
	for (unsigned changes_at = 0; changes_at < 3; changes_at++)
		for (unsigned i = 0; i < 60; i++) {
			bool slow = (i + changes_at) / 20 == 1;
			answer(names[i % 3], slow ? (40 + i % 3) * MS : MS / 5, 0);
			cr_assert_str_eq(far(), "", "answer %u of link %u", i, changes_at);
		}
}

Test(peer_check, two_far_ones_are_named_while_most_others_are_near)
{
	for (unsigned i = 0; i < PEER_CHECK_ROW; i++) {
		look(MS / 5, 40 * MS, MS / 5);
		answer("d", 40 * MS, 0);
		answer("e", MS / 5, 0);
		answer("f", MS / 5, 0);
	}
	cr_assert_str_eq(far(), "bd");
	cr_assert_eq(far_from(), 0u);
}
