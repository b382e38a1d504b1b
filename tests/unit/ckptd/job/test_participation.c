/* What a node says to its coordinator when it is refused, and of epochs: job/participation.c, with a host in the same daemon. */
#include "job/participation.h"

#include "base/clock.h"
#include "base/log.h"
#include "ckptd/job/participation_maker.h"
#include "ckptd/job_maker.h"
#include "control/host/coordinator_host.h"
#include "control/host/outbox.h"
#include "control/membership/membership.h"
#include "job/rank/rank.h"
#include "job/resize.h"
#include "participant/orders.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(participation, .init = participation_maker_setup, .fini = participation_maker_teardown);

Test(participation, who_is_refused_for_what_passes_joins_again)
{
	other(PEER_NODE_JOIN);
	take_part();
	cr_expect_eq(host_view(&here.control, "main").world, 6u);
	cr_assert_gt(job.join_ns, clock_now(), "it asks no more, and nobody tells it");
	participation_tick(&job);
	outbox_deliver(&here.control);
	cr_expect_gt(job.join_ns, clock_now(), "not before its time");
	job.join_ns = clock_now();
	participation_tick(&job);
	outbox_deliver(&here.control);
	cr_expect_gt(job.join_ns, clock_now(), "refused again");
	other(PEER_LEAVE);
	job.join_ns = clock_now();
	participation_tick(&job);
	outbox_deliver(&here.control);
	cr_expect_eq(host_view(&here.control, "main").world, job.world);
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	cr_expect_eq(job.join_ns, 0u);
	wait_for_epoch();
	cr_expect_eq(job.epoch, 1u);
}

/* The launcher has brought a plan that this daemon did not know: its ranks come as others, and nobody is to forget what he holds for the job. */
Test(participation, whose_ranks_come_again_does_not_end_the_job)
{
	take_part();
	wait_for_epoch();
	participation_leave(&job, true);
	cr_expect(host_has(&here.control, "main") && !host_view(&here.control, "main").attending);
	take_part();
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	participation_leave(&job, false);
	cr_expect_not(host_has(&here.control, "main"));
}

static unsigned lines_in(FILE *log, const char *word)
{
	char line[1024];
	unsigned n = 0;
	rewind(log);
	while (fgets(line, sizeof(line), log))
		n += strstr(line, word) != NULL;
	return n;
}

Test(participation, a_refusal_that_lasts_is_logged_when_it_is_new)
{
	FILE *log = tmpfile();
	cr_assert(log && dup2(fileno(log), STDERR_FILENO) == STDERR_FILENO);
	log_set_level(LOG_WARN);
	other(PEER_NODE_JOIN);
	for (unsigned i = 0; i < 20; i++)
		take_part();
	cr_expect_eq(lines_in(log, "runs with world size 6"), 2u, "here, and where it is coordinated");
	other(PEER_LEAVE);
	take_part();
	wait_for_epoch();
	participation_leave(&job, false);
	other(PEER_NODE_JOIN);
	take_part();
	cr_expect_eq(lines_in(log, "runs with world size 6"), 4u, "it was over meanwhile");
	fclose(log);
}

Test(participation, who_contradicts_the_job_does_not_ask_again)
{
	struct peer_order order = {.type = PEER_REJECT, .job = "main", .word = {.rc = -EINVAL, .text = "no"}};
	orders_obey(&here.dispatch, &order);
	outbox_deliver(&here.control);
	cr_expect_eq(job.join_ns, 0u);
}

/* The plan that took its ranks away may be here before the epoch that the loss of one of them raised. */
Test(participation, a_node_without_ranks_enters_no_epoch)
{
	static const enum peer_type late[] = {PEER_RAISE, PEER_ADOPT, PEER_RESUME, PEER_LOOK, PEER_JOINED};
	job.nlocal = 0;
	job.world = 0;
	for (size_t i = 0; i < sizeof(late) / sizeof(*late); i++)
		orders_obey(&here.dispatch, &(struct peer_order){.type = late[i], .job = "main", .word = {.epoch = 2}});
	outbox_deliver(&here.control);
	cr_expect_eq(job.epoch, 0u);
	cr_expect_eq(host_view(&here.control, "main").attending, 0u, "it says that it waits to enter");
	cr_expect(restore_idle(&job.restore));
}

Test(participation, who_has_no_part_in_a_plan_that_was_made_twice_does_not_join)
{
	struct peer_report assignment = {
		.type = PEER_CAPACITY, .job = "main", .assignment = {.want = 2, .least = 2, .processes = 2}};
	struct peer_report node_join = {
		.type = PEER_NODE_JOIN, .job = "main", .node_join = {.world = 2, .nranks = 1, .plan = 1}};
	list_remove(&job.link);
	reports(0, &assignment);
	cr_assert_eq(membership_plan(&here.control, "main"), 1u);
	reports(1, &node_join);
	cr_expect_eq(membership_plan(&here.control, "main"), 2u);
	cr_expect_eq(host_view(&here.control, "main").attending, 0u);
}

/* Its daemon coordinates, and was killed when its ranks had been told of the plan, and its launcher had not. It is told once it is let in. */
Test(participation, who_follows_an_older_plan_is_let_in_beside_those_who_follow_the_one_that_holds)
{
	struct err err = {{0}};
	struct peer_report assignment = {
		.type = PEER_CAPACITY,
		.job = "main",
		.assignment = {.want = 4, .least = 2, .processes = 2, .plan = 2, .world = 2, .n = 2, .ranks = {0, 1}}};
	struct peer_report node_join = {
		.type = PEER_NODE_JOIN, .job = "main", .node_join = {.world = 2, .nranks = 2, .plan = 2}};
	reports(1, &assignment);
	reports(1, &node_join);
	cr_assert_eq(membership_plan(&here.control, "main"), 2u);
	cr_assert_eq(host_view(&here.control, "main").attending, 2u);
	cr_expect_eq(participation_take(&job, 1, &err), 0, "%s", err.text);
	cr_expect_eq(host_view(&here.control, "main").world, 2u);
	cr_expect_eq(host_view(&here.control, "main").attending, 2u);
	cr_expect_lt(participation_take(&job, 0, &err), 0, "who follows no plan is told why it cannot come");
}

Test(participation, who_is_not_heard_for_what_was_left_of_another_job_joins_when_that_is_over)
{
	struct peer_report assignment = {
		.type = PEER_CAPACITY, .job = "main", .assignment = {.want = 4, .least = 4, .processes = 4}};
	reports(1, &assignment);
	cr_assert_eq(membership_plan(&here.control, "main"), 1u);
	job.has_arenas = true;
	take_part();
	cr_expect_eq(host_view(&here.control, "main").attending, 0u);
	host_abandon(&here.control, "main");
	resize_end(&job);
	outbox_deliver(&here.control);
	cr_assert_gt(job.join_ns, clock_now(), "nobody else tells it");
	job.join_ns = clock_now();
	participation_tick(&job);
	outbox_deliver(&here.control);
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	wait_for_epoch();
	resize_end(&job);
	outbox_deliver(&here.control);
	cr_expect_eq(job.join_ns, 0u, "it was its own end");
}

Test(participation, the_end_of_another_job_of_its_name_is_not_its_own)
{
	job.resize.offered = job.resize.drained = true;
	resize_end(&job);
	outbox_deliver(&here.control);
	cr_expect(job.resize.drained, "its launcher follows no plan yet");
	job.resize.next.number = 1;
	resize_end(&job);
	outbox_deliver(&here.control);
	cr_expect_not(job.resize.drained, "by that one it waits");
}

Test(participation, an_epoch_that_somebody_comes_from_is_not_entered_again)
{
	take_part();
	wait_for_epoch();
	cr_assert_eq(job.epoch, 1u);
	participation_knows(&job, WITNESS_RANK, 1); /* which it entered with an earlier life of both daemons */
	cr_expect_eq(job.epoch, 0u, "nobody is to enter it");
	wait_for_epoch();
	cr_expect_eq(job.epoch, 2u);
}

Test(participation, who_comes_back_to_the_daemon_with_which_it_entered_begins_nothing)
{
	take_part();
	wait_for_epoch();
	job.entered = job.epoch;
	participation_knows(&job, WITNESS_RANK, job.epoch);
	participation_knows(&job, WITNESS_OTHER, 0);
	cr_expect_eq(job.epoch, 1u);
	cr_expect_eq(host_view(&here.control, "main").epoch, 1u);
}

static void capture(struct memory *mem, uint32_t slot, uint64_t step)
{
	struct arena_slot *s = &mem->head->slots[slot];
	s->step = step;
	s->epoch = 1;
	s->target = SLOT_MEMORY;
	s->flags = SLOT_NO_SOURCE_DIGESTS;
	atomic_store(&s->done, 1);
	atomic_store(&s->fenced, 1);
	atomic_store(&s->progress, mem->layout.data_bytes);
	atomic_store(&s->state, SLOT_CAPTURING);
}

/* After a restart of the daemon; of a plan that is over. What its arenas hold is being digested. */
Test(participation, who_is_turned_out_leaves_nothing_that_a_worker_reads)
{
	struct maker m;
	struct err err = {{0}};
	struct wire_offer offer = {
		.want = 4, .least = 4, .processes = 2, .spread = true, .plan = 3, .n = 2, .ranks = {2, 3}};
	maker_new(&m, (struct step_id){10, 1});
	job.epoch = 1;
	for (uint32_t r = 0; r < 2; r++) {
		job.ranks[r] = (struct rank){.job = &job, .id = r, .index = r, .pidfd = -1, .doorbell = -1};
		job.ranks[r].state = RANK_REGISTERED;
		job.ranks[r].arena_sent = true;
		job.ranks[r].mem = memory_get(m.mem[r]);
		capture(m.mem[r], 1, 20);
	}
	saves_follow(&job.saves);
	cr_assert(!saves_idle_here(&job.saves));
	cr_assert_eq(resize_offer(&job, 1, &offer, &err), -EAGAIN);
	cr_expect(job_rank(&job, 0) && !saves_in_memory(&job.saves, UINT64_MAX));
	while (!saves_idle_here(&job.saves)) {
		struct pollfd fd = {.fd = pool_event_fd(here.runtime.pool), .events = POLLIN};
		cr_assert_eq(poll(&fd, 1, 10000), 1, "it goes on for ever");
		pool_poll(here.runtime.pool);
		outbox_deliver(&here.control);
	}
	cr_assert_eq(resize_offer(&job, 2, &offer, &err), 0, "%s", err.text);
	cr_expect(job_rank(&job, 2) && !job_rank(&job, 0) && job.resize.plan == 3);
	maker_free(&m);
}

/* Another daemon may have begun to coordinate the job meanwhile, which has never heard of this node, and asks for its ranks in vain. */
Test(participation, who_was_let_go_joins_again_when_a_rank_is_back)
{
	struct memory mem = {.fd = -1};
	job.epoch = 4;
	for (uint32_t r = 0; r < job.nlocal; r++)
		job.ranks[r] = (struct rank){.job = &job, .id = r, .index = r, .state = RANK_LEFT};
	job.ranks[1].mem = &mem; /* the first has none: nothing is said of shares */
	job.finish = (struct finish){.stand = FINISH_OVER, .epoch = 4};
	finish_tick(&job);
	outbox_deliver(&here.control);
	cr_expect_not(host_has(&here.control, "main"), "as long as none is there it says nothing");
	job.ranks[1].pid = 7;
	finish_tick(&job);
	outbox_deliver(&here.control);
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	cr_expect_eq(job.finish.stand, FINISH_NONE);
}
