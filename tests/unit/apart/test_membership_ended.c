/* Who follows a plan of a job that has ended: control/membership/membership_ended.c. */
#include "membership_maker.h"

#include <criterion/criterion.h>

static void teardown(void)
{
	begun_free(&fake_host.begun);
	membership_maker_teardown();
}

TestSuite(membership_ended, .init = membership_maker_setup, .fini = teardown);

static uint32_t plan_now(void)
{
	return membership_plan(&membership_daemon.control, "gpt");
}

static void is_over(void)
{
	membership_over(&membership_daemon.control, "gpt", true);
	fake_host.has = false;
}

/* Three nodes have ranks, and the last one has none. */
static void begin_with_spare(void)
{
	offer_spare(3);
	begin(3);
	cr_assert(plan_now() == 1 && nodes[3].plan.number == 1 && !nodes[3].plan.n);
	nodes[3].told_plan = false;
}

/* Plan 7 of four ranks is on record, and so is that it has ended. */
static void put_on_record(uint32_t ended)
{
	struct plan_record *plan = &fake_host.begun.plan;
	plan->number = 7;
	for (uint32_t r = 0; r < 4; r++)
		cr_assert_eq(plan_record_add(plan, r < 2 ? "n0" : "n2", r), 0);
	fake_host.begun.ended = ended;
}

static void says(uint32_t node, uint32_t plan, uint32_t n)
{
	struct peer_capacity m = {.want = WANT, .least = LEAST, .processes = EACH, .plan = plan, .n = n};
	if (n)
		m = (struct peer_capacity){.want = WANT,
					   .least = LEAST,
					   .processes = EACH,
					   .plan = plan,
					   .world = 4,
					   .n = n,
					   .ranks = {0, 1}};
	report(node, &m);
}

Test(membership_ended, who_waits_without_ranks_is_told_at_once)
{
	begin_with_spare();
	is_over();
	offer_spare(3);
	cr_expect(nodes[3].over && !nodes[3].told_plan);
	cr_expect_eq(plan_now(), 0, "nothing has begun for it");
}

/* A plan of no world is none, and whoever hears of one hangs up, comes again, and says the same. */
Test(membership_ended, whose_launcher_has_ended_is_told_at_once)
{
	begin_with_spare();
	is_over();
	report(3, &(struct peer_capacity){.want = WANT, .least = LEAST, .plan = 1});
	cr_expect(nodes[3].over && !nodes[3].told_plan);
}

Test(membership_ended, whose_ranks_are_at_work_is_told_first_that_it_has_none)
{
	begin_with_spare();
	is_over();
	offer(1, EACH);
	cr_expect(!nodes[1].over && nodes[1].told_plan);
	cr_expect(nodes[1].plan.number == 2 && nodes[1].plan.world == WANT && !nodes[1].plan.n);
	offer(1, EACH);
	cr_expect(nodes[1].over);
}

Test(membership_ended, copies_stay_where_what_is_there_was_refused_to_the_ranks)
{
	begin_with_spare();
	fake_host.view.unserved = true;
	is_over();
	offer_spare(3);
	cr_expect(nodes[3].over && nodes[3].copies_stay);
}

Test(membership_ended, who_follows_no_plan_begins_the_next_job)
{
	begin_with_spare();
	is_over();
	for (uint32_t n = 0; n < 3; n++)
		nodes[n] = (struct follower){0};
	begin(2);
	offer_spare(3);
	cr_expect(nodes[3].over, "it has waited since the last one");
	begin(3);
	cr_expect_eq(plan_now(), 3);
	EXPECT_RANKS(1, 3, 6, 2, 3);
}

Test(membership_ended, when_that_has_begun_there_is_a_place_for_everybody)
{
	begin_with_spare();
	is_over();
	for (uint32_t n = 0; n < 3; n++)
		nodes[n] = (struct follower){0};
	begin(3);
	offer_spare(3);
	cr_expect(!nodes[3].over && nodes[3].plan.number == 3 && !nodes[3].plan.n);
}

Test(membership_ended, that_is_forgotten_where_nobody_knows_whether_it_is_on_record)
{
	begin_with_spare();
	is_over();
	membership_past_forget(&membership_daemon.control, "gpt");
	offer_spare(3);
	cr_expect_not(nodes[3].over);
	cr_expect_not_null(membership_daemon.control.memberships);
}

/* ---- by the record -------------------------------------------------------------------------------------------------- */

Test(membership_ended, the_next_coordinator_reads_it)
{
	put_on_record(7);
	says(3, 7, 0);
	cr_expect(nodes[3].over && plan_now() == 0 && !membership_daemon.control.memberships);
	cr_expect(nodes[3].copies_stay, "nobody knows any more whether they were refused");
	says(1, 6, 0);
	cr_expect(nodes[1].over, "it was cut off before");
}

Test(membership_ended, and_tells_whose_ranks_are_at_work)
{
	put_on_record(7);
	says(0, 7, 2);
	cr_expect(!nodes[0].over && nodes[0].told_plan);
	cr_expect(nodes[0].plan.number == 8 && nodes[0].plan.world == 4 && !nodes[0].plan.n);
	says(0, 8, 0);
	cr_expect(nodes[0].over && plan_now() == 0);
}

Test(membership_ended, the_plan_on_record_does_not_hold_for_who_comes_later)
{
	put_on_record(7);
	says(1, 0, 0);
	says(3, 7, 0);
	cr_expect(nodes[3].over);
	cr_expect_eq(host_view(&membership_daemon.control, "gpt").world, 0, "nobody waits for its ranks");
	nodes[3] = (struct follower){0};
	says(3, 0, 0);
	says(2, 0, 0);
	cr_expect_eq(plan_now(), 9);
}

Test(membership_ended, a_plan_that_came_later_holds)
{
	put_on_record(5);
	says(0, 7, 2);
	cr_expect(!nodes[0].over && plan_now() == 7);
}

Test(membership_ended, a_plan_that_was_not_on_record_yet_has_ended_all_the_same)
{
	put_on_record(8);
	says(3, 7, 0);
	cr_expect(nodes[3].over && plan_now() == 0);
	for (uint32_t n = 0; n < 3; n++)
		says(n, 0, 0);
	cr_expect_eq(plan_now(), 10);
}

/* ---- what processes have left that are gone -------------------------------------------------------------------------- */

static bool is_told(uint32_t node, uint32_t plan, uint32_t known, bool gone)
{
	struct peer_report r = {.type = PEER_NODE_JOIN,
				.job = "gpt",
				.node_join = {.world = 4, .nranks = 2, .plan = plan, .known = known, .gone = gone}};
	nodes[node] = (struct follower){0};
	bool told = membership_tells_gone(&membership_daemon.control, node, &r);
	read_orders();
	cr_expect_eq(nodes[node].over, told);
	return told;
}

static void put_finished_on_record(uint32_t finished)
{
	put_on_record(7);
	fake_host.begun.id.epoch = 9;
	fake_host.begun.finished = finished;
}

Test(membership_ended, of_a_run_that_has_finished_by_the_record_it_is_to_go)
{
	put_finished_on_record(7);
	cr_expect(is_told(1, 0, 9, true) && nodes[1].copies_stay);
	cr_expect(is_told(1, 7, 4, true));
}

Test(membership_ended, what_a_process_or_a_launcher_still_has_is_not_left)
{
	put_finished_on_record(7);
	cr_expect(!is_told(1, 0, 9, false));
}

Test(membership_ended, of_a_later_run_nothing_was_said)
{
	put_finished_on_record(7);
	cr_expect(!is_told(1, 0, 10, true) && !is_told(1, 9, 9, true) && !is_told(1, 0, 0, true));
}

Test(membership_ended, of_a_run_whose_ranks_were_lost_it_stays)
{
	put_finished_on_record(0);
	cr_expect(!is_told(1, 0, 9, true));
}

Test(membership_ended, while_the_next_run_is_at_work_it_may_need_it)
{
	put_finished_on_record(7);
	says(1, 0, 0);
	cr_expect(!is_told(1, 0, 9, true));
}
