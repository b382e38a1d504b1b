/* Ranks that move while the world keeps its size: together with those of their node, or apart from them. */
#include "membership_maker.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(membership_parted, .init = membership_maker_setup, .fini = membership_maker_teardown);

/* Of three nodes the second is to do without the process of rank 3; the fourth waits as a spare. */
static void give_up_rank_3(bool stored)
{
	membership_daemon.storage.root = stored ? 0 : -1;
	begin(3);
	fake_host.view.alike = true;
	fake_host.view.attending = WANT;
	struct peer_capacity m = assignment_of(1, 1);
	report(1, &m);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1, "nobody has room for it");
}

Test(membership_parted, a_rank_that_moves_alone_is_preceded_by_what_memory_has)
{
	give_up_rank_3(true);
	offer_spare(3);
	cr_assert(fake_host.held && nodes[0].quiesce && nodes[1].quiesce && nodes[2].quiesce && !nodes[3].quiesce);
	cr_expect_not(membership_parted(&membership_daemon.control, "gpt"));
	for (uint32_t n = 0; n < 3; n++)
		quiesced(n, 0);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 2 && fake_host.remakes == 2);
	EXPECT_RANKS(1, 2, 6, 2);
	EXPECT_RANKS(3, 2, 6, 3);
	cr_expect(membership_parted(&membership_daemon.control, "gpt"));
	shown(1, fake_host.view.epoch, LEVEL_CAPTURED);
	cr_expect_not(membership_parted(&membership_daemon.control, "gpt"), "that one fits");
}

Test(membership_parted, without_a_store_its_whole_node_moves)
{
	give_up_rank_3(false);
	offer_spare(3);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 2 && !fake_host.holds);
	EXPECT_RANKS(0, 2, 6, 0, 1);
	cr_expect_eq(nodes[1].plan.n, 0);
	EXPECT_RANKS(3, 2, 6, 2, 3);
	cr_expect_eq(nodes[3].plan.was[0], WIRE_NEW_PROCESS);
	cr_expect_not(membership_parted(&membership_daemon.control, "gpt"));
}

Test(membership_parted, without_a_store_and_room_for_all_it_waits_and_says_what_is_lost)
{
	give_up_rank_3(false);
	struct peer_capacity m = assignment_of(3, 1);
	m.spare = true;
	report(3, &m);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1, "a larger one may come");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	EXPECT_RANKS(3, 2, 6, 3);
	cr_expect(strstr(fake_host.preface, "no node has room for all ranks"), "%s", fake_host.preface);
	cr_expect(membership_parted(&membership_daemon.control, "gpt"));
}

static void expect_parted_at_once(bool stored)
{
	give_up_rank_3(stored);
	fake_host.view.alike = false;
	offer_spare(3);
	cr_expect(membership_plan(&membership_daemon.control, "gpt") == 2 && !fake_host.holds);
	EXPECT_RANKS(1, 2, 6, 2);
	EXPECT_RANKS(3, 2, 6, 3);
}

Test(membership_parted, what_nobody_holds_alike_may_be_parted)
{
	expect_parted_at_once(false);
}

Test(membership_parted, and_need_not_be_written_before_to_a_store_that_may_be_full)
{
	expect_parted_at_once(true);
}
