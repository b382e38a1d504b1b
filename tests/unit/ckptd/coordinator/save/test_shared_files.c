/* Who writes what nodes hold alike, and what fails since a node is lost for good: coordinator/save/shared_files.c, coord_hold. */
#include "ckptd/coordinator/coordinator_maker.h"

#include "base/cleanup.h"
#include "format/files/share_units.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct step_id s10 = {10, 1};

TestSuite(coord_parts, .init = coord_maker_setup, .fini = coord_maker_teardown);

static void copied(struct step_id id)
{
	for (uint32_t n = 0; n < NODES; n++)
		coord_copied(coord, from(n), id);
}

static void made(struct step_id id)
{
	coord_ready(coord, from(0), id);
	coord_made(coord, id, false);
}

static void expect_parts(const uint32_t *part, const uint32_t *parts)
{
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].writes == 1 && told[n].parts.n == 1 && told[n].parts.of[0].part == part[n] &&
				  told[n].parts.of[0].parts == parts[n],
			  "node %u: %u of %u, ordered %u times", n, told[n].parts.of[0].part, told[n].parts.of[0].parts,
			  told[n].writes);
}

Test(coord_parts, nodes_that_hold_the_same_write_a_part_each)
{
	join_all();
	copied(s10);
	made(s10);
	expect_parts((uint32_t[]){0, 1, 2}, (uint32_t[]){3, 3, 3});
}

Test(coord_parts, a_node_that_holds_something_else_writes_all_of_it)
{
	hold(1, 8, 1);
	join_all();
	copied(s10);
	made(s10);
	expect_parts((uint32_t[]){0, 0, 1}, (uint32_t[]){2, 1, 2});
}

Test(coord_parts, who_holds_the_same_in_other_pieces_leaves_it_to_the_others)
{
	hold(1, 7, 2);
	join_all();
	copied(s10);
	made(s10);
	expect_parts((uint32_t[]){0, 0, 1}, (uint32_t[]){2, 0, 2});
}

Test(coord_parts, nothing_is_written_before_all_have_said_what_they_hold)
{
	coord_leave(coord, 2);
	coord_node_join(coord, from(2), EACH, 0);
	join_all();
	copied(s10);
	made(s10);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].writes, 0);
	hold(2, 7, 1);
	expect_parts((uint32_t[]){0, 1, 2}, (uint32_t[]){3, 3, 3});
	hold(2, 7, 1);
	expect_parts((uint32_t[]){0, 1, 2}, (uint32_t[]){3, 3, 3});
}

Test(coord_parts, what_was_said_while_a_lost_node_was_still_counted_holds)
{
	coord_leave(coord, 1);
	coord_node_join(coord, from(0), 2 * EACH, 0); /* it has taken the ranks of a node whose end is not known yet */
	hold(0, 7, 1);
	coord_node_join(coord, from(1), EACH, 0);
	hold(1, 7, 1);
	coord_leave(coord, 2);
	coord_ready(coord, from(0), s10);
	coord_made(coord, s10, false);
	cr_expect(told[0].writes == 1 && told[1].writes == 1 && told[0].parts.of[0].parts == 2,
		  "%u, %u writes, %u parts", told[0].writes, told[1].writes, told[0].parts.of[0].parts);
}

/* ---- mixtures ------------------------------------------------------------------------------------------------------ */

enum { MIB = 1 << 20 };

/* One share, of one replica group: a bit for each of its pieces of 32 MiB. */
static void say(uint32_t node, uint32_t pieces, bool list)
{
	AUTO_WBUF struct wbuf units = {0};
	struct shares s = {.n = 1, .of[0] = {.what = pieces, .cut = 1, .key = 5}, .listed = list};
	for (uint32_t k = 0; k < 8; k++)
		if (pieces & 1u << k) {
			share_unit_put(&units, &(struct share_unit){.sum = k, .bytes = 32 * MIB, .divides = true});
			s.of[0].bytes += 32 * MIB;
			s.of[0].units++;
		}
	s.units = list ? units.data : NULL;
	coord_shares(coord, node, &s);
}

static void expect_run(uint32_t node, uint32_t i, struct share_run expected)
{
	cr_assert(told[node].parts.nruns > i && told[node].parts.of[0].parts == SHARE_MIXED);
	struct share_run run = share_run_get(told[node].parts.runs, i);
	cr_expect(run.units == expected.units && run.from == expected.from && run.to == expected.to,
		  "node %u: %u pieces from %lu to %lu", node, run.units, (unsigned long)run.from,
		  (unsigned long)run.to);
}

static void hold_mixed(void)
{
	say(0, 3, false);
	say(1, 3, false);
	say(2, 2, false);
}

static void mix(void)
{
	hold_mixed();
	join_all();
	copied(s10);
	made(s10);
}

Test(coord_parts, what_nodes_hold_in_part_is_divided_piece_by_piece)
{
	mix();
	cr_expect(told[0].lists == 1 && told[0].list == 1 && told[2].lists == 1);
	cr_expect_eq(told[1].lists, 0, "it holds what another one lists");
	say(0, 3, true);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].writes, 0, "not all have listed theirs");
	say(2, 2, true);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].writes, 1);
	expect_run(0, 0, (struct share_run){1, 0, 16 * MIB});
	expect_run(0, 1, (struct share_run){1, 0, 0});
	expect_run(1, 0, (struct share_run){1, 16 * MIB, UINT64_MAX});
	expect_run(2, 0, (struct share_run){1, 0, UINT64_MAX});
	say(1, 3, false);
	cr_expect(told[0].lists == 1 && told[0].writes == 1, "nothing has changed");
}

Test(coord_parts, who_has_not_heard_that_it_is_to_list_its_pieces_is_asked_again)
{
	mix();
	say(2, 2, false); /* as after the way to it was cut */
	cr_expect_eq(told[2].lists, 2);
	cr_expect_eq(told[0].lists, 1);
	say(0, 3, true);
	say(2, 2, true);
	cr_expect_eq(told[1].writes, 1);
}

Test(coord_parts, the_pieces_of_all_its_shares_are_listed_at_once)
{
	for (uint32_t n = 0; n < NODES; n++) {
		struct shares s = {.n = 2, .of = {{.what = n + 1, .key = 5}, {.what = n ? 8 : 9, .key = 6}}};
		coord_shares(coord, n, &s);
	}
	cr_expect(told[0].list == 3 && told[1].list == 3 && told[2].list == 1, "%u %u %u", told[0].list, told[1].list,
		  told[2].list);
	coord_shares(coord, 0,
		     &(struct shares){.n = 2, .of = {{.what = 1, .key = 5}, {.what = 9, .key = 6}}, .listed = 1});
	cr_expect(told[0].lists == 2 && told[0].list == 3, "%u, %u", told[0].lists, told[0].list);
}

Test(coord_parts, who_comes_in_the_place_of_one_that_was_asked_is_divided_with)
{
	hold_mixed();
	say(0, 3, true);
	coord_leave(coord, 2);
	coord_node_join(coord, from(2), EACH, 0);
	join_all();
	say(2, 3, false);
	copied(s10);
	made(s10);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].writes == 1 && told[n].parts.of[0].parts == 3 && !told[n].parts.nruns);
}

Test(coord_parts, a_mixture_of_too_many_pieces_is_not_written)
{
	struct shares most = {.n = 1, .of[0] = {.what = 9, .key = 5, .units = SHARE_UNITS_MAX + 1}};
	coord_shares(coord, 1, &most);
	mix();
	coord_shares(coord, 1, &most);
	say(0, 3, true);
	say(2, 2, true);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect(told[n].failure == -E2BIG && !told[n].writes && strstr(told[n].text, "32769 pieces"),
			  "%d: %s", told[n].failure, told[n].text);
}

Test(coord_parts, nobody_enters_a_world_that_is_about_to_change)
{
	join_all();
	cr_assert_eq(coord_view(coord).entered, 1);
	coord_hold(coord, "it changes");
	cr_expect_eq(coord_view(coord).epoch, 2);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(told[n].raised, 1);
	join_all();
	cr_expect_eq(coord_view(coord).entered, 1);
	coord_hold(coord, "again");
	cr_expect_eq(coord_view(coord).epoch, 2, "nobody has entered it");
	coord_release(coord);
	cr_expect_eq(coord_view(coord).entered, 2);
}

Test(coord_parts, what_a_lost_node_has_a_part_of_fails_before_the_world_changes)
{
	join_all();
	copied(s10);
	coord_gone(coord, 2, "it is lost");
	made(s10); /* as if it could come back */
	cr_expect_eq(told[0].failure, 0);
	coord_hold(coord, "it changes");
	cr_expect(told[0].failure == -ENODEV && told[1].failure == -ENODEV && place.dropped == 1);
	struct step_id s20 = {20, 1};
	coord_ready(coord, (struct coord_from){0, 2}, s20);
	cr_expect_eq(told[0].failure, -ENODEV);
	cr_expect_eq(place.made, 1, "no directory is made for the second");
}

/* The coordinator before this one had it written, and the part of a lost node is in it. */
Test(coord_parts, what_was_prepared_before_fails_in_a_world_that_is_about_to_change)
{
	struct peer_report prepared = {.type = PEER_PREPARED, .prepared.id = s10};
	join_all();
	coord_gone(coord, 2, "it is lost");
	coord_hold(coord, "it changes");
	coord_input(coord, (struct coord_from){0, coord_view(coord).epoch}, &prepared);
	cr_expect_eq(told[0].failure, -ENODEV);
	cr_expect_eq(place.made, 0, "its directory is not made anew: nobody could complete it");
}

/* Where a job of that name on one node has taken the place of one on several, the others of that one may still report. */
Test(coord_parts, a_node_that_has_no_part_in_the_job_says_nothing)
{
	static const uint16_t types[] = {PEER_SHARED_PIECES, PEER_RANK_JOIN, PEER_LOST, PEER_NOT_JOINING};
	join_all();
	for (uint32_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		coord_input(coord, (struct coord_from){.node = NODES, .epoch = 1},
			    &(struct peer_report){.type = types[i]});
	copied(s10);
	made(s10);
	expect_parts((uint32_t[]){0, 1, 2}, (uint32_t[]){3, 3, 3});
}
