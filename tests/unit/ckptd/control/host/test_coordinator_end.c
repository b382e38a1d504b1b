/* The end of a job is on record before any node is told, and a coordinator that begins reads it there: control/host/coordinator_end.c, with the host of a job of two nodes whose
 * world may change, and a store. What is told is seen at this node, which was drained: that ends with its job. */
#include "control/host/coordinator_end.h"

#include "base/cleanup.h"
#include "ckptd/job/participation_maker.h"
#include "control/control.h"
#include "control/host/coordinator_host_private.h"
#include "control/membership/membership.h"
#include "control/record/epoch_record.h"
#include "job/participation.h"
#include "runtime/loop.h"
#include "scratch.h"
#include "store/read/repo.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char store[SCRATCH_MAX];

static void setup(void)
{
	participation_maker_setup();
	struct err err = {{0}};
	scratch_new(store);
	cr_assert_eq(repo_create(store, &err), 0, "%s", err.text);
	here.runtime.config.store = store;
	cr_assert_eq(loop_new(&here.runtime.loop, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	participation_maker_teardown();
	loop_free(here.runtime.loop);
	scratch_remove(store);
}

TestSuite(coordinator_end, .init = setup, .fini = teardown);

/* All that is on its way is on record. */
static void settle(void)
{
	struct pollfd fd = {.fd = pool_event_fd(here.runtime.pool), .events = POLLIN};
	while (here.control.records) {
		cr_assert_eq(poll(&fd, 1, 10000), 1, "nothing is recorded");
		pool_poll(here.runtime.pool);
		outbox_deliver(&here.control);
	}
}

static struct begun recorded(void)
{
	struct begun last;
	struct err err = {{0}};
	cr_assert_eq(epochs_last(&here.control, "main", &last, &err), 0, "%s", err.text);
	begun_free(&last);
	return last;
}

static uint32_t recorded_plan(void)
{
	struct begun last;
	struct err err = {{0}};
	cr_assert_eq(epochs_last(&here.control, "main", &last, &err), 0, "%s", err.text);
	uint32_t number = last.plan.number;
	begun_free(&last);
	return number;
}

/* What a node says that follows this plan: none of it has begun, or all of its ranks are at work. */
static void offers(uint32_t node, uint32_t plan, bool at_work)
{
	struct peer_report r = {.type = PEER_CAPACITY,
				.job = "main",
				.assignment = {.want = 4, .least = 2, .processes = 2, .plan = plan}};
	if (at_work) {
		r.assignment.world = 4;
		r.assignment.n = 2;
		r.assignment.ranks[0] = 2 * node;
		r.assignment.ranks[1] = 2 * node + 1;
	}
	reports(node, &r);
}

static void joins(uint32_t node, uint32_t plan)
{
	struct peer_report r = {
		.type = PEER_NODE_JOIN, .job = "main", .node_join = {.world = 4, .nranks = 2, .plan = plan}};
	reports(node, &r);
}

/* Both nodes follow plan 1, and take part. */
static void begin(void)
{
	offers(0, 0, false);
	offers(1, 0, false);
	settle();
	cr_assert(membership_plan(&here.control, "main") == 1 && job.resize.next.number == 1);
	job.resize.next.number = 0;
	job.resize.plan = 1;
	job.resize.drained = true;
	for (uint32_t n = 0; n < 2; n++) {
		offers(n, 1, true);
		joins(n, 1);
	}
	cr_assert_eq(host_view(&here.control, "main").attending, 4);
}

static void finishes(uint32_t node)
{
	struct peer_report r = {.type = PEER_LEAVE, .job = "main", .epoch = job.epoch, .leave = PEER_RANKS_FINISHED};
	reports(node, &r);
}

static void all_finish(void)
{
	finishes(0);
	cr_assert_eq(membership_plan(&here.control, "main"), 1, "another one is at work");
	finishes(1);
}

static bool is_told(void)
{
	return !job.resize.drained;
}

/* The daemon of the coordinator begins anew. */
static void restart(void)
{
	hosts_free(&here.control);
	list_init(&here.control.hosts);
	outbox_init(&here.control.outbox);
	job.resize.drained = true;
}

Test(coordinator_end, nobody_is_told_before_it_is_on_record)
{
	begin();
	all_finish();
	cr_expect(!is_told() && host_has(&here.control, "main"));
	cr_expect_eq(recorded().ended, 0);
	settle();
	cr_expect(is_told() && !host_has(&here.control, "main"));
	cr_expect(recorded().ended == 1 && recorded().finished == 1 && recorded_plan() == 1);
}

Test(coordinator_end, what_cannot_be_recorded_is_told_as_soon_as_it_can_be)
{
	AUTO_FREE char *path = NULL, *kept = NULL;
	begin();
	cr_assert(asprintf(&path, "%s/main/EPOCH", store) > 0 && asprintf(&kept, "%s/kept", store) > 0);
	cr_assert_eq(rename(path, kept), 0);
	cr_assert_eq(mkdir(path, 0700), 0); /* no file takes its place */
	all_finish();
	settle();
	cr_expect(!is_told() && host_has(&here.control, "main"));
	cr_assert_eq(rmdir(path), 0);
	hosts_tick(&here.control, UINT64_MAX);
	outbox_deliver(&here.control);
	settle();
	cr_expect(is_told() && !host_has(&here.control, "main"));
}

Test(coordinator_end, who_comes_for_the_next_job_meanwhile_is_to_ask_again)
{
	begin();
	all_finish();
	job.join_ns = 0;
	offers(0, 0, false);
	cr_expect(job.join_ns && !membership_plan(&here.control, "main"));
	job.join_ns = 0;
	joins(0, 0);
	cr_expect(job.join_ns && !host_view(&here.control, "main").attending);
	settle();
	offers(0, 0, false);
	offers(1, 0, false);
	settle();
	cr_expect_eq(recorded_plan(), 3, "2 is a plan in which nobody has a rank");
	cr_expect_eq(recorded().ended, 1, "it was an earlier one");
	cr_expect_eq(recorded().finished, 0, "what the next one has in memory is of use");
}

Test(coordinator_end, what_a_node_has_of_it_is_nothing_before_it_is_on_record)
{
	struct membership_drained is;
	struct err err = {{0}};
	begin();
	all_finish();
	cr_expect_eq(membership_drained(&here.control, "main", "n1", &is, &err), 0, "%s", err.text);
	cr_expect_eq(is.ranks, 0);
}

/* It may or may not be on record: the next coordinator sees. */
Test(coordinator_end, who_does_not_coordinate_it_any_more_tells_nobody)
{
	begin();
	all_finish();
	host_depose(&here.control, "main");
	settle();
	cr_expect(!is_told() && !host_has(&here.control, "main"));
	cr_expect_eq(recorded().ended, 1, "it was under way");
	offers(0, 1, false);
	cr_expect(is_told() && !membership_plan(&here.control, "main"));
}

Test(coordinator_end, the_next_coordinator_tells_who_follows_that_plan)
{
	begin();
	all_finish();
	settle();
	restart();
	offers(0, 1, false);
	cr_expect(is_told() && !membership_plan(&here.control, "main") && !host_has(&here.control, "main"));
}

/* First its processes go. */
Test(coordinator_end, whose_ranks_are_at_work_is_given_a_plan_without_any)
{
	begin();
	all_finish();
	settle();
	restart();
	offers(0, 1, true);
	cr_expect_not(is_told());
	cr_expect(job.resize.next.number == 2 && job.resize.next.world == 4 && !job.resize.next.n);
	offers(0, 2, false);
	cr_expect(is_told() && !membership_plan(&here.control, "main"));
}

Test(coordinator_end, the_next_job_of_that_name_begins_with_a_later_plan)
{
	begin();
	all_finish();
	settle();
	restart();
	offers(0, 0, false);
	offers(1, 1, false);
	cr_expect_eq(recorded_plan(), 1, "that node has come back from the one before");
	offers(1, 0, false);
	settle();
	cr_expect_eq(recorded_plan(), 3);
	cr_expect_eq(membership_plan(&here.control, "main"), 3);
	offers(1, 1, false);
	cr_expect_eq(membership_plan(&here.control, "main"), 3, "it has a place in this one");
}

Test(coordinator_end, of_a_job_that_has_begun_since_the_plan_on_record_holds)
{
	begin();
	all_finish();
	settle();
	offers(0, 0, false);
	offers(1, 0, false);
	settle();
	restart();
	offers(0, 3, true);
	cr_expect(!is_told() && membership_plan(&here.control, "main") == 3);
}

Test(coordinator_end, a_job_whose_world_does_not_change_needs_no_record)
{
	take_part();
	joins(1, 0);
	settle();
	job.resize.drained = true;
	finishes(0);
	finishes(1);
	cr_expect(is_told() && !here.control.records && !host_has(&here.control, "main"));
}
