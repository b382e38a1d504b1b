#include "membership_maker.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(membership, .init = membership_maker_setup, .fini = membership_maker_teardown);

/* ---- the first plan --------------------------------------------------------------------------------------------- */

Test(membership, the_first_plan_is_made_when_all_are_there)
{
	offer(0, EACH);
	offer(1, EACH);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 0);
	cr_expect_eq(fake_host.remakes, 0);
	offer(2, EACH);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
	cr_expect(fake_host.remakes == 1 && fake_host.view.world == WANT);
	EXPECT_RANKS(0, 1, 6, 0, 1);
	EXPECT_RANKS(1, 1, 6, 2, 3);
	EXPECT_RANKS(2, 1, 6, 4, 5);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect_eq(nodes[n].plan.was[0], WIRE_NEW_PROCESS);
}

/* All that had ranks, and the daemon that had planned, are gone. */
Test(membership, the_first_plan_comes_after_those_that_somebody_had_no_rank_in)
{
	struct peer_capacity m = assignment_of(2, EACH);
	m.plan = 4;
	report(2, &m);
	offer(0, EACH);
	offer(1, EACH);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 5,
		     "he follows plan 4, and heeds none that is not later");
	EXPECT_RANKS(2, 5, 6, 4, 5);
}

Test(membership, who_is_missing_is_waited_for_until_the_deadline)
{
	offer(0, EACH);
	offer(1, EACH);
	clock_skip((WAIT_S - 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 0);
	clock_skip(2 * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
	EXPECT_RANKS(1, 1, 4, 2, 3);
}

Test(membership, with_fewer_than_the_job_needs_it_goes_on_waiting)
{
	offer(0, LEAST - 1);
	clock_skip(100 * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 0);
	offer(1, LEAST - 1);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1, "its time is over");
}

Test(membership, who_wants_another_job_is_turned_away)
{
	offer(0, EACH);
	struct peer_capacity m = assignment_of(1, EACH);
	m.least = WANT;
	report(1, &m);
	cr_expect_eq(nodes[1].away, -EINVAL);
	cr_expect_str_eq(nodes[1].text, "node n1 offers itself to a job of 6 to 6 ranks, the others to one of 2 to 6");
	offer(1, EACH);
	offer(2, EACH);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1, "it may think better of it");
}

Test(membership, a_job_of_that_name_on_one_node_is_another_one)
{
	begin(3);
	struct peer_report r = {
		.type = PEER_CAPACITY, .job = "gpt", .assignment = {.want = 1, .least = 1, .processes = 1}};
	membership_report(&membership_daemon.control, 0, false, &r);
	cr_expect_eq(fake_host.norders, 0);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
}

Test(membership, what_cannot_be_ends_it_for_all)
{
	fake_host.remake_rc = -EINVAL;
	begin(3);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect(nodes[n].away == -EINVAL && strstr(nodes[n].text, "the store says no"), "%s", nodes[n].text);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 0);
	cr_expect_null(membership_daemon.control.memberships);
}

Test(membership, who_has_lost_his_launcher_is_told_that_his_ranks_went_elsewhere)
{
	begin(3);
	offer_spare(3);
	offer(1, 0);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	cr_expect(nodes[1].plan.number == 2 && !nodes[1].plan.n);
	EXPECT_RANKS(3, 2, 6, 2, 3);
}

/* The plan before it gave ranks to a spare, and only the others came in time to say what holds. */
Test(membership, a_plan_that_was_made_twice_holds_under_another_number)
{
	begin(3);
	offer_spare(3);
	struct peer_capacity m = assignment_of(3, EACH);
	m.plan = 1;
	m.world = WANT;
	m.n = EACH;
	m.ranks[0] = 2;
	m.ranks[1] = 3;
	report(3, &m);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	cr_expect(nodes[3].plan.number == 2 && !nodes[3].plan.n, "they are those of another node");
	EXPECT_RANKS(1, 2, 6, 2, 3);
	cr_expect(nodes[1].plan.was[0] == 2 && fake_host.remakes == 1, "its processes go on");
	follow();
	node_join(1);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2, "nobody else has what it has");
	node_join(3);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 3);
}

Test(membership, who_has_lost_his_launcher_may_start_it_again)
{
	begin(3);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	offer(1, 0);
	clock_skip((WAIT_S - 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_host.holds, 0, "as for a node that is lost");
	clock_skip(2 * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_host.held);
}

/* This daemon was restarted, and the node's launcher was gone by then: nobody has offered what joins. */
Test(membership, who_joins_without_a_launcher_is_told_that_his_ranks_went_elsewhere)
{
	for (uint32_t n = 0; n < 3; n += 2) {
		struct peer_capacity m = assignment_of(n, EACH);
		m.plan = 4;
		m.world = WANT;
		m.n = EACH;
		m.ranks[0] = n * EACH;
		m.ranks[1] = n * EACH + 1;
		report(n, &m);
	}
	node_join(1);
	offer_spare(3);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 4, "somebody may come and claim them");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 5);
	cr_expect(nodes[1].plan.number == 5 && !nodes[1].plan.n);
	EXPECT_RANKS(3, 5, 6, 2, 3);
}

/* Its daemon lives, and has what its ranks had: of rank 0, that nobody else has written. */
Test(membership, who_has_lost_his_launcher_settles_with_the_others)
{
	begin(3);
	offer(0, 0);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_assert(fake_host.held && nodes[0].quiesce && nodes[1].quiesce && nodes[2].quiesce);
	quiesced(1, 0);
	quiesced(2, 0);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1, "the newest step would be lost");
	quiesced(0, 0);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	cr_expect(nodes[0].plan.number == 2 && !nodes[0].plan.n);
}

Test(membership, who_has_lost_his_launcher_and_then_all_is_not_waited_for)
{
	begin(3);
	offer(0, 0);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	quiesced(1, 0);
	quiesced(2, 0);
	cr_expect(membership_deserted(&membership_daemon.control, "gpt", 0, false));
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2, "its daemon has ended the job");
}

/* Of a plan that it does not follow it has nothing, and it would not answer. */
Test(membership, who_has_lost_his_launcher_before_he_followed_does_not_settle)
{
	shrink();
	offer(1, EACH);
	occasion();
	quiesced(0, 0);
	quiesced(2, 0);
	cr_assert_eq(membership_plan(&membership_daemon.control, "gpt"), 3);
	nodes[1].plan.number = 2;
	offer(1, 0);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(nodes[0].quiesce && nodes[2].quiesce && !nodes[1].quiesce);
}

/* ---- losses ----------------------------------------------------------------------------------------------------- */

Test(membership, a_spare_takes_the_place_of_a_lost_node_at_once)
{
	offer_spare(3);
	begin(3);
	cr_expect_eq(nodes[3].plan.n, 0);
	fake_host.moved = 0;
	lose(1);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	cr_expect(!fake_host.holds && fake_host.releases == 1 && fake_host.remakes == 1, "the world stays as it is");
	EXPECT_RANKS(0, 2, 6, 0, 1);
	EXPECT_RANKS(3, 2, 6, 2, 3);
	cr_expect(nodes[0].plan.was[0] == 0 && nodes[2].plan.was[1] == 5, "they go on");
	cr_expect_eq(nodes[3].plan.was[0], WIRE_NEW_PROCESS);
	cr_expect_eq(fake_host.moved, 1u << 1 | 1u << 3);
}

static void expect_shrunk(void)
{
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	cr_expect(fake_host.remakes == 2 && fake_host.view.world == 4);
	EXPECT_RANKS(0, 2, 4, 0, 1);
	EXPECT_RANKS(2, 2, 4, 2, 3);
	cr_expect(nodes[2].plan.was[0] == 4 && nodes[2].plan.was[1] == 5, "the highest ranks go into the gaps");
}

Test(membership, without_one_the_world_shrinks_when_all_have_settled)
{
	begin(3);
	lose(1);
	cr_expect_eq(fake_host.holds, 0, "it may come back");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_host.held && nodes[0].quiesce && nodes[2].quiesce && !nodes[1].quiesce);
	quiesced(0, 0);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
	quiesced(2, 0);
	expect_shrunk();
}

Test(membership, directories_that_are_being_cleared_away_are_waited_for)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	fake_host.busy = true;
	quiesced(0, 0);
	quiesced(2, 0);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
	fake_host.busy = false;
	tick();
	expect_shrunk();
}

Test(membership, who_is_lost_while_it_settles_is_not_waited_for)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	quiesced(0, 0);
	lose(2);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	EXPECT_RANKS(0, 2, 2, 0, 1);
}

Test(membership, who_comes_back_before_the_deadline_makes_it_whole_again)
{
	begin(3);
	lose(1);
	offer(1, EACH);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	cr_expect_eq(fake_host.holds, 0);
	EXPECT_RANKS(1, 2, 6, 2, 3);
}

Test(membership, who_comes_back_while_it_settles_keeps_the_world)
{
	begin(3);
	struct follower was = nodes[1];
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	nodes[1] = was; /* its processes live: only its session was lost */
	offer(1, EACH);
	quiesced(0, 0);
	quiesced(2, 0);
	tick();
	cr_expect(fake_host.held && nodes[1].quiesce, "what it has under way is to end, too");
	quiesced(1, 0);
	tick();
	cr_expect(!fake_host.held && fake_host.remakes == 1);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1, "nobody is anybody else");
}

Test(membership, too_few_are_waited_for_without_an_end)
{
	begin(3);
	lose(1);
	lose(2);
	offer(0, 1);
	clock_skip(100 * CLOCK_NS_PER_S);
	tick();
	cr_expect(!fake_host.holds && membership_plan(&membership_daemon.control, "gpt") == 1);
	offer(2, 1);
	tick();
	cr_expect(fake_host.held, "now it can go on");
}

Test(membership, what_was_settled_for_another_plan_is_not_heard)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	struct peer_report r = {.type = PEER_QUIESCED, .job = "gpt", .quiesced.plan = 0};
	membership_report(&membership_daemon.control, 0, true, &r);
	membership_report(&membership_daemon.control, 2, true, &r);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 1);
}

/* ---- who comes late --------------------------------------------------------------------------------------------- */

Test(membership, a_node_that_missed_a_plan_is_told_it_and_who_its_processes_were)
{
	shrink();
	occasion();
	struct peer_capacity old = assignment_of(2, EACH);
	old.plan = 1;
	old.ranks[0] = 4;
	old.ranks[1] = 5;
	nodes[2].told_plan = false;
	report(2, &old);
	cr_assert(nodes[2].told_plan);
	EXPECT_RANKS(2, 2, 4, 2, 3);
	cr_expect_eq(nodes[2].plan.was[0], 4);
	old.plan = 0;
	report(2, &old);
	cr_expect_eq(nodes[2].plan.was[0], WIRE_NEW_PROCESS, "one that has missed two knows none of them");
}

Test(membership, it_ends_when_nobody_is_left)
{
	begin(3);
	for (uint32_t n = 0; n < 3; n++)
		offer(n, 0);
	tick();
	cr_expect_not_null(membership_daemon.control.memberships, "a launcher may be started again");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	fake_host.has = false;
	tick();
	cr_expect_null(membership_daemon.control.memberships);
}

/* ---- the end of nodes ------------------------------------------------------------------------------------------- */

/* Of all who have ranks, and have not finished. */
static void desert(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		offer(i, 0);
	fake_host.view.attending = 0;
	for (uint32_t i = 0; i < n; i++)
		cr_expect(membership_deserted(&membership_daemon.control, "gpt", i, i + 1 == n));
}

Test(membership, a_job_that_all_its_ranks_were_lost_of_goes_on_with_who_waits)
{
	begin(3);
	desert(3);
	offer(3, EACH);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	tick();
	cr_expect_eq(fake_host.abandoned, 0);
	EXPECT_RANKS(3, 2, 2, 0, 1);
}

Test(membership, a_job_that_everybody_has_deserted_is_over_when_nobody_comes)
{
	begin(3);
	desert(3);
	tick();
	cr_expect_eq(fake_host.abandoned, 0, "a launcher may be started again");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_host.abandoned, 1);
}

Test(membership, who_deserts_before_his_launcher_does_is_not_waited_for_either)
{
	begin(3);
	offer(0, 0);
	offer(1, 0);
	fake_host.view.attending = 0;
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(membership_deserted(&membership_daemon.control, "gpt", i, i == 2));
	offer(2, 0);
	cr_expect(membership_deserted(&membership_daemon.control, "gpt", 2, false), "it had nothing any more");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_host.abandoned, 1);
}

Test(membership, a_job_that_all_its_ranks_were_lost_of_is_over_when_too_few_wait)
{
	begin(3);
	desert(3);
	offer(3, LEAST - 1);
	tick();
	cr_expect_eq(fake_host.abandoned, 0, "a launcher may be started again");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_host.abandoned, 1);
}

Test(membership, too_few_wait_for_those_who_were_lost_with_their_daemons)
{
	begin(3);
	for (uint32_t i = 0; i < 3; i++)
		memberships_node_down(&membership_daemon.control, i);
	fake_host.view.attending = 0;
	offer(3, LEAST - 1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_host.abandoned, 0);
}

Test(membership, who_was_lost_with_his_daemon_has_not_deserted)
{
	begin(3);
	for (uint32_t i = 0; i < 3; i++)
		memberships_node_down(&membership_daemon.control, i);
	fake_host.view.attending = 0;
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_host.abandoned, 0, "it comes back");
}

Test(membership, who_comes_back_after_all_have_deserted_goes_on)
{
	begin(3);
	desert(3);
	node_join(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_host.abandoned, 0);
}

/* ---- the end of ranks ------------------------------------------------------------------------------------------- */

Test(membership, ranks_that_have_finished_are_not_asked_to_settle)
{
	begin(3);
	cr_expect(membership_left(&membership_daemon.control, "gpt", 0), "others are at work");
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(!nodes[0].quiesce && nodes[2].quiesce);
	cr_expect(!membership_left(&membership_daemon.control, "gpt", 2), "it was the last");
	cr_expect(!membership_left(&membership_daemon.control, "bert", 0));
}

Test(membership, who_has_finished_has_no_processes_for_another_epoch)
{
	begin(3);
	membership_left(&membership_daemon.control, "gpt", 0);
	tick();
	cr_expect_eq(fake_host.holds, 0);
	fake_host.view.epoch++;
	tick();
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_host.held, "its ranks are missing");
}
