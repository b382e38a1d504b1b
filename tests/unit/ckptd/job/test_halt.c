/* That a job is to end, at once or later, reaches all its nodes, whatever becomes of its coordinator: job/halt.c, with a host in the same daemon. */
#include "job/halt.h"

#include "base/clock.h"
#include "ckptd/job/participation_maker.h"
#include "control/host/coordinator_host.h"
#include "control/host/outbox.h"
#include "control/membership/membership.h"
#include "dispatch/coordinator_link.h"
#include "job/participation.h"
#include "participant/orders.h"
#include "participant/participant.h"

#include <criterion/criterion.h>

TestSuite(halt, .init = participation_maker_setup, .fini = participation_maker_teardown);

static void ask(enum wire_command_kind kind)
{
	struct wire_answer answer = {0};
	struct err err = {{0}};
	const struct wire_command command = {.kind = kind};
	here.storage.root = 0; /* as if there were a store */
	cr_assert_eq(halt_request(&job, &command, &answer, &err), 0, "%s", err.text);
	participant_forward(&job, &command);
	outbox_deliver(&here.control);
	here.storage.root = -1;
}

/* This node, after its daemon was restarted. */
static void come_back(void)
{
	job.stop = false;
	job.halt = (struct halt){0};
	take_part();
}

Test(halt, who_was_not_there_when_the_others_were_asked_to_end_is_asked_when_it_joins)
{
	take_part();
	struct peer_report r = {.type = PEER_REQUEST, .job = "main", .request.command.kind = COMMAND_HALT};
	reports(1, &r);
	come_back();
	cr_expect(job.stop);
}

/* Of a world of 6, which the other node alone has come with. */
static void halt_of_the_other(void)
{
	struct peer_report r = {.type = PEER_REQUEST, .job = "main", .request.command.kind = COMMAND_HALT};
	other(PEER_NODE_JOIN);
	reports(1, &r);
	job.world = 6;
	job.halt = (struct halt){0}; /* it has no part in that yet */
	job.stop = false;
}

Test(halt, what_a_job_was_asked_does_not_outlive_the_last_node_of_it)
{
	halt_of_the_other();
	list_remove(&job.link);
	hosts_node_down(&here.control, 1, -ECONNRESET, "it is down");
	outbox_deliver(&here.control);
	cr_assert_eq(host_view(&here.control, "main").attending, 0u);
	list_push(&here.jobs.list, &job.link);
	take_part();
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	cr_expect(!job.stop, "that was another life of the job");
}

/* It was killed before it had ended, and waits for others (node-wait). */
Test(halt, nor_that_of_a_job_whose_ranks_are_planned)
{
	struct peer_report assignment = {
		.type = PEER_CAPACITY, .job = "main", .assignment = {.want = 2, .least = 2, .processes = 2}};
	struct peer_report ask = {.type = PEER_REQUEST, .job = "main", .request.command.kind = COMMAND_HALT};
	list_remove(&job.link);
	reports(0, &assignment);
	cr_assert_eq(membership_plan(&here.control, "main"), 1u);
	list_push(&here.jobs.list, &job.link);
	job.world = 2;
	job.resize.plan = 1;
	take_part();
	reports(0, &ask);
	participation_leave(&job, false);
	cr_assert(host_has(&here.control, "main") && !host_view(&here.control, "main").attending);
	come_back();
	cr_assert_eq(host_view(&here.control, "main").attending, 2u);
	cr_expect(!job.stop);
}

Test(halt, but_holds_for_who_comes_with_another_world_of_the_same_job)
{
	struct err err = {{0}};
	halt_of_the_other();
	cr_assert_eq(host_remake(&here.control, "main", 5, true, &err), 0, "%s", err.text);
	job.world = 4;
	take_part();
	cr_expect_eq(host_view(&here.control, "main").world, 4u);
	cr_expect(job.stop);
}

/* That the store cannot be read for a moment is no reason to forget it. */
Test(halt, also_where_the_world_could_not_be_made_at_first)
{
	struct err err = {{0}};
	struct peer_report assignment = {
		.type = PEER_CAPACITY, .job = "main", .assignment = {.want = 6, .least = 6, .processes = 4}};
	struct peer_report halt = {.type = PEER_REQUEST, .job = "main", .request.command.kind = COMMAND_HALT};
	struct peer_report node_join = {
		.type = PEER_NODE_JOIN, .job = "main", .node_join = {6, .nranks = 4, .plan = 1}};
	list_remove(&job.link);
	reports(1, &assignment);
	assignment.assignment.processes = job.nlocal;
	reports(0, &assignment);
	reports(1, &node_join);
	reports(1, &halt);
	here.runtime.config.store = "/nothing/is/here";
	cr_assert_lt(host_remake(&here.control, "main", 6, true, &err), 0);
	cr_assert_not(host_has(&here.control, "main"));
	here.runtime.config.store = NULL;
	list_push(&here.jobs.list, &job.link);
	job.world = 6;
	job.resize.plan = 1;
	take_part();
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	cr_expect(job.stop);
}

/* As a rank that runs: what is left of a job that has ended says nothing. */
static void runs(void)
{
	job.ranks[0].pid = 1;
}

Test(halt, it_may_be_known_to_who_was_in_an_epoch_and_is_still_there)
{
	job.ranks[1].was_in = true;
	cr_expect_not(halt_may_be_known(&job), "that process has ended");
	job.ranks[0].pid = 1;
	cr_expect_not(halt_may_be_known(&job), "this one was in none");
	job.ranks[1].pid = 2;
	cr_expect(halt_may_be_known(&job));
	job.ranks[1].pid = 0;
	job.halt.launcher_was_there = true;
	cr_expect_not(halt_may_be_known(&job), "the launcher has ended, too");
	job.launcher = (struct client *)&job;
	cr_expect(halt_may_be_known(&job));
}

Test(halt, the_checkpoint_after_which_one_node_ends_is_that_of_all)
{
	take_part();
	wait_for_epoch();
	ask(COMMAND_HALT_AFTER);
	cr_expect(!job.stop, "it has not begun");
	halt_durable(&job);
	outbox_deliver(&here.control);
	cr_expect(job.stop);
	come_back();
	cr_expect(job.stop, "the others were not told");
}

Test(halt, what_is_asked_for_later_is_told_to_who_comes_back)
{
	take_part();
	ask(COMMAND_HALT_AFTER);
	come_back();
	cr_expect_eq(job.halt.later.kind, COMMAND_HALT_AFTER);
	ask(COMMAND_GO_ON);
	cr_expect(!job.halt.later.kind && job.halt.later.number == 2);
	come_back();
	halt_durable(&job);
	outbox_deliver(&here.control);
	cr_expect(!job.stop && job.halt.later.number == 2);
}

Test(halt, the_next_coordinator_hears_of_it_from_who_knows_it_last)
{
	runs();
	job.halt.later = (struct peer_halt){.number = 3, .kind = COMMAND_HALT_BEFORE, .before_ns = UINT64_MAX};
	take_part();
	struct peer_report r = {.type = PEER_NODE_JOIN, .job = "main", .node_join = {.world = 4, .nranks = 2}};
	r.node_join.halt = (struct peer_halt){.number = 4};
	reports(1, &r);
	cr_expect(job.halt.later.number == 4 && !job.halt.later.kind, "it was taken back on the way");
	r.node_join.halt = (struct peer_halt){.number = 2, .kind = COMMAND_HALT_AFTER};
	reports(1, &r);
	cr_expect_eq(job.halt.later.number, 4);
	ask(COMMAND_HALT_AFTER);
	cr_expect_eq(job.halt.later.number, 5);
	job.halt.later.kind = COMMAND_HALT_BEFORE; /* by a coordinator that was lost with all others it had told */
	take_part();
	cr_expect(job.halt.later.number == 5 && job.halt.later.kind == COMMAND_HALT_AFTER);
}

Test(halt, what_is_left_of_a_job_that_has_ended_asks_nothing_of_the_next_one)
{
	job.halt.later = (struct peer_halt){.number = 3, .kind = COMMAND_HALT_AFTER};
	take_part();
	come_back();
	cr_expect_eq(job.halt.later.number, 0);
}

/* The node is taken for one of the job's by another coordinator than the one that was told. */
Test(halt, a_coordinator_that_has_not_heard_that_the_time_has_come_is_told)
{
	take_part();
	wait_for_epoch();
	coordinator_link_down(&job);
	job.halt.due = true;
	halt_now(&job);
	cr_assert(!job.stop, "it was told once, and nobody is there");
	coordinator_link_up(&job);
	outbox_deliver(&here.control);
	orders_obey(&here.dispatch,
		    &(struct peer_order){.type = PEER_RESUME, .job = "main", .word = {.epoch = job.epoch}});
	outbox_deliver(&here.control);
	cr_expect(job.stop);
}

Test(halt, a_time_that_has_come_is_forgotten_when_the_halt_is_taken_back)
{
	job.halt.due = true;
	halt_hear(&job, &(struct peer_halt){.number = 9});
	take_part();
	halt_joined(&job);
	cr_expect(!job.stop && !job.halt.due);
}

Test(halt, but_not_what_a_launcher_alone_has_asked)
{
	job_stop(&job);
	coordinator_link_up(&job);
	outbox_deliver(&here.control);
	come_back();
	cr_expect(!job.stop);
}

Test(halt, what_is_asked_for_later_waits_for_a_coordinator_that_knows_whether_it_holds)
{
	runs();
	take_part();
	wait_for_epoch();
	ask(COMMAND_HALT_AFTER);
	coordinator_link_down(&job);
	halt_durable(&job);
	outbox_deliver(&here.control);
	cr_expect(!job.stop, "it may have been taken back");
	coordinator_link_up(&job);
	outbox_deliver(&here.control);
	orders_obey(&here.dispatch,
		    &(struct peer_order){.type = PEER_RESUME, .job = "main", .word = {.epoch = job.epoch}});
	outbox_deliver(&here.control);
	halt_durable(&job);
	outbox_deliver(&here.control);
	cr_expect(job.stop);
}

Test(halt, an_appointment_waits_for_that_too)
{
	take_part();
	wait_for_epoch();
	ask(COMMAND_GO_ON);
	coordinator_link_down(&job);
	halt_hear(&job, &(struct peer_halt){.number = 1, .kind = COMMAND_HALT_BEFORE, .before_ns = 1});
	halt_tick(&job);
	outbox_deliver(&here.control);
	cr_expect(!job.stop);
	halt_joined(&job);
	halt_tick(&job);
	outbox_deliver(&here.control);
	cr_expect(job.stop);
}

Test(halt, there_is_nothing_to_take_back_where_a_job_is_on_one_node_alone)
{
	struct wire_answer answer = {0};
	struct err err = {{0}};
	job.spread = false;
	cr_expect_eq(halt_request(&job, &(struct wire_command){.kind = COMMAND_GO_ON}, &answer, &err), -EINVAL);
	job.spread = true;
	job.stop = true;
	cr_expect_eq(halt_request(&job, &(struct wire_command){.kind = COMMAND_GO_ON}, &answer, &err), -EINVAL);
}
