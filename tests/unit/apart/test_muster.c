#include "muster_maker.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(muster, .init = muster_maker_setup, .fini = muster_maker_teardown);

/* ---- the first plan --------------------------------------------------------------------------------------------- */

Test(muster, the_first_plan_is_made_when_all_are_there)
{
	offer(0, EACH);
	offer(1, EACH);
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 0);
	cr_expect_eq(fake_chair.remakes, 0);
	offer(2, EACH);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1);
	cr_expect(fake_chair.remakes == 1 && fake_chair.view.world == WANT);
	EXPECT_RANKS(0, 1, 6, 0, 1);
	EXPECT_RANKS(1, 1, 6, 2, 3);
	EXPECT_RANKS(2, 1, 6, 4, 5);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect_eq(nodes[n].plan.was[0], WIRE_NEW_PROCESS);
}

/* All that had ranks, and the daemon that had planned, are gone. */
Test(muster, the_first_plan_comes_after_those_that_somebody_had_no_rank_in)
{
	struct peer_crew m = crew_of(2, EACH);
	m.plan = 4;
	report(2, &m);
	offer(0, EACH);
	offer(1, EACH);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 5, "he follows plan 4, and heeds none that is not later");
	EXPECT_RANKS(2, 5, 6, 4, 5);
}

Test(muster, who_is_missing_is_waited_for_until_the_deadline)
{
	offer(0, EACH);
	offer(1, EACH);
	clock_skip((WAIT_S - 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 0);
	clock_skip(2 * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1);
	EXPECT_RANKS(1, 1, 4, 2, 3);
}

Test(muster, with_fewer_than_the_job_needs_it_goes_on_waiting)
{
	offer(0, LEAST - 1);
	clock_skip(100 * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 0);
	offer(1, LEAST - 1);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1, "its time is over");
}

Test(muster, who_wants_another_job_is_turned_away)
{
	offer(0, EACH);
	struct peer_crew m = crew_of(1, EACH);
	m.least = WANT;
	report(1, &m);
	cr_expect_eq(nodes[1].away, -EINVAL);
	cr_expect_str_eq(nodes[1].text, "node n1 offers itself to a job of 6 to 6 ranks, the others to one of 2 to 6");
	offer(1, EACH);
	offer(2, EACH);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1, "it may think better of it");
}

Test(muster, a_job_of_that_name_on_one_node_is_another_one)
{
	begin(3);
	struct peer_report r = {.type = PEER_CREW, .job = "gpt", .crew = {.want = 1, .least = 1, .processes = 1}};
	muster_report(&muster_daemon, 0, false, &r);
	cr_expect_eq(fake_chair.norders, 0);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1);
}

Test(muster, what_cannot_be_ends_it_for_all)
{
	fake_chair.remake_rc = -EINVAL;
	begin(3);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect(nodes[n].away == -EINVAL && strstr(nodes[n].text, "the store says no"), "%s", nodes[n].text);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 0);
	cr_expect_null(muster_daemon.musters);
}

Test(muster, a_store_that_refuses_for_the_moment_ends_nothing)
{
	fake_chair.remake_rc = -EIO;
	begin(3);
	cr_expect_eq(nodes[1].away, 0, "%s", nodes[1].text);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1, "who attends has the chair made");
	EXPECT_RANKS(1, 1, 6, 2, 3);
}

Test(muster, who_has_lost_his_launcher_is_told_that_his_ranks_went_elsewhere)
{
	begin(3);
	offer_spare(3);
	offer(1, 0);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 2);
	cr_expect(nodes[1].plan.number == 2 && !nodes[1].plan.n);
	EXPECT_RANKS(3, 2, 6, 2, 3);
}

/* The plan before it gave ranks to a spare, and only the others came in time to say what holds. */
Test(muster, a_plan_that_was_made_twice_holds_under_another_number)
{
	begin(3);
	offer_spare(3);
	struct peer_crew m = crew_of(3, EACH);
	m.plan = 1;
	m.world = WANT;
	m.n = EACH;
	m.ranks[0] = 2;
	m.ranks[1] = 3;
	report(3, &m);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 2);
	cr_expect(nodes[3].plan.number == 2 && !nodes[3].plan.n, "they are those of another node");
	EXPECT_RANKS(1, 2, 6, 2, 3);
	cr_expect(nodes[1].plan.was[0] == 2 && fake_chair.remakes == 1, "its processes go on");
	follow();
	attend(1);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 2, "nobody else has what it has");
	attend(3);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 3);
}

Test(muster, who_has_lost_his_launcher_may_start_it_again)
{
	begin(3);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	offer(1, 0);
	clock_skip((WAIT_S - 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_chair.holds, 0, "as for a node that is lost");
	clock_skip(2 * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_chair.held);
}

/* This daemon was restarted, and the node's launcher was gone by then: nobody has offered what attends. */
Test(muster, who_attends_without_a_launcher_is_told_that_his_ranks_went_elsewhere)
{
	for (uint32_t n = 0; n < 3; n += 2) {
		struct peer_crew m = crew_of(n, EACH);
		m.plan = 4;
		m.world = WANT;
		m.n = EACH;
		m.ranks[0] = n * EACH;
		m.ranks[1] = n * EACH + 1;
		report(n, &m);
	}
	attend(1);
	offer_spare(3);
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 4, "somebody may come and claim them");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 5);
	cr_expect(nodes[1].plan.number == 5 && !nodes[1].plan.n);
	EXPECT_RANKS(3, 5, 6, 2, 3);
}

/* Its daemon lives, and has what its ranks had: of rank 0, that nobody else has written. */
Test(muster, who_has_lost_his_launcher_settles_with_the_others)
{
	begin(3);
	offer(0, 0);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_assert(fake_chair.held && nodes[0].settle && nodes[1].settle && nodes[2].settle);
	settled(1, 0);
	settled(2, 0);
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1, "the newest step would be lost");
	settled(0, 0);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 2);
	cr_expect(nodes[0].plan.number == 2 && !nodes[0].plan.n);
}

Test(muster, who_has_lost_his_launcher_and_then_all_is_not_waited_for)
{
	begin(3);
	offer(0, 0);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	settled(1, 0);
	settled(2, 0);
	cr_expect(muster_deserted(&muster_daemon, "gpt", 0, false));
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 2, "its daemon has ended the job");
}

/* Of a plan that it does not follow it has nothing, and it would not answer. */
Test(muster, who_has_lost_his_launcher_before_he_followed_does_not_settle)
{
	shrink();
	offer(1, EACH);
	occasion();
	settled(0, 0);
	settled(2, 0);
	cr_assert_eq(muster_plan(&muster_daemon, "gpt"), 3);
	nodes[1].plan.number = 2;
	offer(1, 0);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(nodes[0].settle && nodes[2].settle && !nodes[1].settle);
}

/* ---- losses ----------------------------------------------------------------------------------------------------- */

Test(muster, a_spare_takes_the_place_of_a_lost_node_at_once)
{
	offer_spare(3);
	begin(3);
	cr_expect_eq(nodes[3].plan.n, 0);
	lose(1);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 2);
	cr_expect(!fake_chair.holds && fake_chair.releases == 1 && fake_chair.remakes == 1, "the world stays as it is");
	EXPECT_RANKS(0, 2, 6, 0, 1);
	EXPECT_RANKS(3, 2, 6, 2, 3);
	cr_expect(nodes[0].plan.was[0] == 0 && nodes[2].plan.was[1] == 5, "they go on");
	cr_expect_eq(nodes[3].plan.was[0], WIRE_NEW_PROCESS);
}

static void expect_shrunk(void)
{
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 2);
	cr_expect(fake_chair.remakes == 2 && fake_chair.view.world == 4);
	EXPECT_RANKS(0, 2, 4, 0, 1);
	EXPECT_RANKS(2, 2, 4, 2, 3);
	cr_expect(nodes[2].plan.was[0] == 4 && nodes[2].plan.was[1] == 5, "the highest ranks go into the gaps");
}

Test(muster, without_one_the_world_shrinks_when_all_have_settled)
{
	begin(3);
	lose(1);
	cr_expect_eq(fake_chair.holds, 0, "it may come back");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_chair.held && nodes[0].settle && nodes[2].settle && !nodes[1].settle);
	settled(0, 0);
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1);
	settled(2, 0);
	expect_shrunk();
}

Test(muster, directories_that_are_being_cleared_away_are_waited_for)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	fake_chair.busy = true;
	settled(0, 0);
	settled(2, 0);
	tick();
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1);
	fake_chair.busy = false;
	tick();
	expect_shrunk();
}

Test(muster, who_is_lost_while_it_settles_is_not_waited_for)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	settled(0, 0);
	lose(2);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 2);
	EXPECT_RANKS(0, 2, 2, 0, 1);
}

Test(muster, who_comes_back_before_the_deadline_makes_it_whole_again)
{
	begin(3);
	lose(1);
	offer(1, EACH);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 2);
	cr_expect_eq(fake_chair.holds, 0);
	EXPECT_RANKS(1, 2, 6, 2, 3);
}

Test(muster, who_comes_back_while_it_settles_keeps_the_world)
{
	begin(3);
	struct follower was = nodes[1];
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	nodes[1] = was; /* its processes live: only its session was lost */
	offer(1, EACH);
	settled(0, 0);
	settled(2, 0);
	tick();
	cr_expect(fake_chair.held && nodes[1].settle, "what it has under way is to end, too");
	settled(1, 0);
	tick();
	cr_expect(!fake_chair.held && fake_chair.remakes == 1);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1, "nobody is anybody else");
}

Test(muster, too_few_are_waited_for_without_an_end)
{
	begin(3);
	lose(1);
	lose(2);
	offer(0, 1);
	clock_skip(100 * CLOCK_NS_PER_S);
	tick();
	cr_expect(!fake_chair.holds && muster_plan(&muster_daemon, "gpt") == 1);
	offer(2, 1);
	tick();
	cr_expect(fake_chair.held, "now it can go on");
}

Test(muster, what_was_settled_for_another_plan_is_not_heard)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	struct peer_report r = {.type = PEER_SETTLED, .job = "gpt", .settled.plan = 0};
	muster_report(&muster_daemon, 0, true, &r);
	muster_report(&muster_daemon, 2, true, &r);
	cr_expect_eq(muster_plan(&muster_daemon, "gpt"), 1);
}

/* ---- who comes late --------------------------------------------------------------------------------------------- */

Test(muster, a_node_that_missed_a_plan_is_told_it_and_who_its_processes_were)
{
	shrink();
	occasion();
	struct peer_crew old = crew_of(2, EACH);
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

Test(muster, it_ends_when_nobody_is_left)
{
	begin(3);
	for (uint32_t n = 0; n < 3; n++)
		offer(n, 0);
	tick();
	cr_expect_not_null(muster_daemon.musters, "a launcher may be started again");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	fake_chair.has = false;
	tick();
	cr_expect_null(muster_daemon.musters);
}

/* ---- the end of nodes ------------------------------------------------------------------------------------------- */

/* Of all who have ranks, and have not finished. */
static void desert(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		offer(i, 0);
	fake_chair.view.attending = 0;
	for (uint32_t i = 0; i < n; i++)
		cr_expect(muster_deserted(&muster_daemon, "gpt", i, i + 1 == n));
}

Test(muster, a_job_that_all_its_ranks_were_lost_of_goes_on_with_who_waits)
{
	begin(3);
	desert(3);
	offer(3, EACH);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	tick();
	cr_expect_eq(fake_chair.abandoned, 0);
	EXPECT_RANKS(3, 2, 2, 0, 1);
}

Test(muster, a_job_that_everybody_has_deserted_is_over_when_nobody_comes)
{
	begin(3);
	desert(3);
	tick();
	cr_expect_eq(fake_chair.abandoned, 0, "a launcher may be started again");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_chair.abandoned, 1);
}

Test(muster, who_deserts_before_his_launcher_does_is_not_waited_for_either)
{
	begin(3);
	offer(0, 0);
	offer(1, 0);
	fake_chair.view.attending = 0;
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(muster_deserted(&muster_daemon, "gpt", i, i == 2));
	offer(2, 0);
	cr_expect(muster_deserted(&muster_daemon, "gpt", 2, false), "it had nothing any more");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_chair.abandoned, 1);
}

Test(muster, a_job_that_all_its_ranks_were_lost_of_is_over_when_too_few_wait)
{
	begin(3);
	desert(3);
	offer(3, LEAST - 1);
	tick();
	cr_expect_eq(fake_chair.abandoned, 0, "a launcher may be started again");
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_chair.abandoned, 1);
}

Test(muster, too_few_wait_for_those_who_were_lost_with_their_daemons)
{
	begin(3);
	for (uint32_t i = 0; i < 3; i++)
		musters_node_down(&muster_daemon, i);
	fake_chair.view.attending = 0;
	offer(3, LEAST - 1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_chair.abandoned, 0);
}

Test(muster, who_was_lost_with_his_daemon_has_not_deserted)
{
	begin(3);
	for (uint32_t i = 0; i < 3; i++)
		musters_node_down(&muster_daemon, i);
	fake_chair.view.attending = 0;
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_chair.abandoned, 0, "it comes back");
}

Test(muster, who_comes_back_after_all_have_deserted_goes_on)
{
	begin(3);
	desert(3);
	attend(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect_eq(fake_chair.abandoned, 0);
}

/* ---- the end of ranks ------------------------------------------------------------------------------------------- */

Test(muster, ranks_that_have_finished_are_not_asked_to_settle)
{
	begin(3);
	cr_expect(muster_left(&muster_daemon, "gpt", 0), "others are at work");
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(!nodes[0].settle && nodes[2].settle);
	cr_expect(!muster_left(&muster_daemon, "gpt", 2), "it was the last");
	cr_expect(!muster_left(&muster_daemon, "bert", 0));
}

Test(muster, who_has_finished_has_no_processes_for_another_epoch)
{
	begin(3);
	muster_left(&muster_daemon, "gpt", 0);
	tick();
	cr_expect_eq(fake_chair.holds, 0);
	fake_chair.view.epoch++;
	tick();
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	cr_expect(fake_chair.held, "its ranks are missing");
}
