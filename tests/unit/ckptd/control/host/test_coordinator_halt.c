/* What a job was asked is on record before anybody is told, and a coordinator that begins reads it there: control/host/coordinator_halt.c, with the host of a job of
 * two nodes, and a store. */
#include "control/host/coordinator_halt.h"

#include "base/cleanup.h"
#include "ckptd/job/participation_maker.h"
#include "control/control.h"
#include "control/host/coordinator_host.h"
#include "control/host/outbox.h"
#include "control/record/epoch_record.h"
#include "job/participation.h"
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
	job.ranks[0].pid = 1; /* as one that runs */
}

static void teardown(void)
{
	participation_maker_teardown();
	scratch_remove(store);
}

TestSuite(coordinator_halt, .init = setup, .fini = teardown);

static void join_other(bool goes_on)
{
	struct peer_report r = {
		.type = PEER_NODE_JOIN, .job = "main", .node_join = {.world = 4, .nranks = 2, .goes_on = goes_on}};
	reports(1, &r);
}

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

static void begin(void)
{
	take_part();
	join_other(false);
	settle();
	cr_assert(job.epoch);
	job.known = job.epoch;
	job.ranks[0].was_in = true;
}

static int ask(enum wire_command_kind kind)
{
	struct err err = {{0}};
	return host_halt(&here.control, "main", &(struct wire_command){.kind = kind, .at_ns = 1ull << 62}, &err);
}

static struct asked_record recorded(void)
{
	struct begun last;
	struct err err = {{0}};
	cr_assert_eq(epochs_last(&here.control, "main", &last, &err), 0, "%s", err.text);
	struct asked_record asked = last.asked;
	begun_free(&last);
	asked.drained = NULL;
	return asked;
}

/* The daemon of the coordinator begins anew; all nodes forget what they were asked. */
static void restart(void)
{
	hosts_free(&here.control);
	list_init(&here.control.hosts);
	outbox_init(&here.control.outbox);
	job.halt = (struct halt){0};
	job.stop = false;
}

Test(coordinator_halt, nobody_is_told_before_it_is_on_record)
{
	begin();
	cr_expect_eq(ask(COMMAND_HALT_AFTER), -EINPROGRESS);
	cr_expect(host_halt_waits(&here.control, "main") && !job.halt.later.kind);
	cr_expect_eq(recorded().halt_number, 0);
	settle();
	cr_expect_eq(job.halt.later.kind, COMMAND_HALT_AFTER);
	cr_expect(recorded().halt == ASKED_HALT_AFTER_NEXT && !host_halt_waits(&here.control, "main"));
	cr_expect_eq(ask(COMMAND_GO_ON), -EINPROGRESS);
	cr_expect_eq(job.halt.later.kind, COMMAND_HALT_AFTER);
	settle();
	cr_expect(!job.halt.later.kind && recorded().halt == ASKED_NO_HALT && recorded().halt_number == 2);
}

Test(coordinator_halt, what_is_asked_last_takes_the_place_of_what_still_waits)
{
	begin();
	ask(COMMAND_HALT_AFTER);
	ask(COMMAND_HALT_BEFORE);
	settle();
	cr_expect(job.halt.later.kind == COMMAND_HALT_BEFORE && job.halt.later.number == 2);
	cr_expect(recorded().halt == ASKED_HALT_BEFORE && recorded().halt_before == 1ull << 62);
}

Test(coordinator_halt, that_a_job_is_to_end_is_not_taken_back)
{
	begin();
	cr_expect_eq(ask(COMMAND_HALT), -EINPROGRESS);
	cr_expect_eq(ask(COMMAND_GO_ON), -EINVAL);
	cr_expect_eq(ask(COMMAND_HALT), -EINPROGRESS, "who asks again waits, too");
	cr_expect(!job.stop);
	settle();
	cr_expect(job.stop);
	cr_expect_eq(ask(COMMAND_HALT), 0);
	cr_expect_eq(ask(COMMAND_HALT_AFTER), -EINVAL);
}

Test(coordinator_halt, what_cannot_be_recorded_is_told_as_soon_as_it_can_be)
{
	AUTO_FREE char *path = NULL, *kept = NULL;
	begin();
	cr_assert(asprintf(&path, "%s/main/EPOCH", store) > 0 && asprintf(&kept, "%s/kept", store) > 0);
	cr_assert_eq(rename(path, kept), 0);
	cr_assert_eq(mkdir(path, 0700), 0); /* no file takes its place */
	ask(COMMAND_HALT);
	settle();
	cr_expect(!job.stop && host_halt_waits(&here.control, "main"));
	cr_assert_eq(rmdir(path), 0);
	hosts_tick(&here.control, UINT64_MAX);
	outbox_deliver(&here.control);
	settle();
	cr_expect(job.stop && !host_halt_waits(&here.control, "main"));
}

Test(coordinator_halt, the_next_coordinator_reads_it_and_tells_who_joins)
{
	begin();
	ask(COMMAND_HALT_BEFORE);
	settle();
	restart();
	take_part();
	cr_expect(job.halt.later.kind == COMMAND_HALT_BEFORE && job.halt.later.before_ns == 1ull << 62);
}

/* The first to join has begun anew, the other one is of those who were asked. */
Test(coordinator_halt, it_holds_for_all_as_soon_as_one_is_there_who_was_there_before)
{
	begin();
	ask(COMMAND_HALT);
	settle();
	restart();
	job.ranks[0].was_in = false;
	take_part();
	cr_expect(!job.stop);
	join_other(true);
	cr_expect(job.stop);
}

/* The registry was restored from an old backup, or the file was. */
Test(coordinator_halt, a_node_that_knows_of_more_than_the_record_is_told_under_a_later_number)
{
	begin();
	job.halt.later = (struct peer_halt){.number = 5, .kind = COMMAND_HALT_AFTER};
	take_part();
	settle();
	cr_expect(job.halt.later.number == 6 && !job.halt.later.kind && recorded().halt_number == 6);
}

Test(coordinator_halt, the_last_number_is_for_the_end_of_what_was_asked)
{
	begin();
	job.halt.later = (struct peer_halt){.number = UINT32_MAX - 3, .kind = COMMAND_HALT_AFTER};
	take_part();
	settle();
	cr_expect_eq(ask(COMMAND_HALT_AFTER), -EINPROGRESS);
	settle();
	cr_expect_eq(job.halt.later.number, UINT32_MAX - 1);
	cr_expect_eq(ask(COMMAND_GO_ON), -EOVERFLOW);
	cr_expect_eq(job.halt.later.kind, COMMAND_HALT_AFTER);
	hosts_node_down(&here.control, 1, -ECONNRESET, "it is down");
	outbox_deliver(&here.control);
	participation_leave(&job, false);
	settle();
	cr_expect(recorded().halt == ASKED_NO_HALT && recorded().halt_number == UINT32_MAX);
}

Test(coordinator_halt, no_number_begins_at_0_again)
{
	begin();
	job.halt.later = (struct peer_halt){.number = UINT32_MAX, .kind = COMMAND_HALT_AFTER};
	take_part();
	settle();
	cr_expect(!job.halt.later.kind && recorded().halt_number == UINT32_MAX);
	cr_expect_eq(ask(COMMAND_HALT), -EOVERFLOW);
}

static void wait_to_enter(bool other_goes_on)
{
	struct peer_report ready = {.type = PEER_NODE_READY, .job = "main", .epoch = job.epoch};
	for (uint32_t n = 0; n < 2; n++) {
		ready.joining =
			(struct peer_node_ready){.n = 2, .ranks = {2 * n, 2 * n + 1}, .goes_on = n && other_goes_on};
		reports(n, &ready);
	}
}

/* All processes of both nodes end, and others begin, one node after the other; the arenas stay, and the nodes never leave. */
static void begin_again(bool other_goes_on)
{
	wait_to_enter(false);
	settle();
	cr_assert_eq(host_view(&here.control, "main").entered, job.epoch);
	ask(COMMAND_HALT);
	settle();
	cr_assert(job.stop);
	job.stop = job.ranks[0].was_in = false;
	job.halt = (struct halt){0};
	struct peer_report lost = {.type = PEER_LOST, .job = "main", .epoch = job.epoch, .rank = {.was_in = true}};
	reports(0, &lost);
	settle();
	take_part();
	join_other(other_goes_on);
	settle();
	cr_assert_lt(host_view(&here.control, "main").entered, job.epoch);
	wait_to_enter(other_goes_on);
}

Test(coordinator_halt, it_is_over_where_all_who_wait_have_come_since)
{
	begin();
	begin_again(false);
	cr_expect_lt(host_view(&here.control, "main").entered, job.epoch, "it is on record first");
	settle();
	cr_expect_eq(host_view(&here.control, "main").entered, job.epoch);
	cr_expect(!job.stop && !job.halt.later.kind && recorded().halt == ASKED_NO_HALT);
}

Test(coordinator_halt, it_holds_where_one_of_those_who_wait_was_there)
{
	begin();
	begin_again(true);
	settle();
	cr_expect_eq(host_view(&here.control, "main").entered, job.epoch);
	cr_expect(job.stop && recorded().halt == ASKED_HALT_NOW);
}

/* They have yet to enter their first epoch. */
Test(coordinator_halt, it_holds_for_those_who_were_asked_before_they_were_in_an_epoch)
{
	begin();
	ask(COMMAND_HALT_AFTER);
	settle();
	wait_to_enter(false);
	settle();
	cr_expect_eq(host_view(&here.control, "main").entered, job.epoch);
	cr_expect_eq(job.halt.later.kind, COMMAND_HALT_AFTER);
}

/* All nodes take part, with what is in their memory, before a process has come back to any daemon. */
Test(coordinator_halt, it_holds_for_who_is_back_when_all_wait_and_was_not_when_all_took_part)
{
	begin();
	ask(COMMAND_HALT_AFTER);
	settle();
	restart();
	job.ranks[0].was_in = false;
	participation_join(&job);
	join_other(false);
	settle();
	cr_expect_eq(recorded().halt, ASKED_HALT_AFTER_NEXT, "it is not known yet");
	wait_to_enter(true);
	settle();
	cr_expect_eq(host_view(&here.control, "main").entered, job.epoch);
	cr_expect(job.halt.later.kind == COMMAND_HALT_AFTER && recorded().halt == ASKED_HALT_AFTER_NEXT);
}

/* Those who were asked were lost together, or ended while nobody coordinated them: copies and arenas that they left know of their epoch. */
Test(coordinator_halt, where_all_begin_anew_it_is_over_and_nobody_enters_before_that_is_on_record)
{
	begin();
	ask(COMMAND_HALT);
	settle();
	restart();
	job.ranks[0].was_in = false;
	take_part();
	settle();
	cr_expect(!job.stop && recorded().halt == ASKED_HALT_NOW, "it is not known yet");
	join_other(false);
	wait_to_enter(false);
	cr_expect_eq(host_view(&here.control, "main").entered, 0u);
	settle();
	cr_expect_eq(host_view(&here.control, "main").entered, job.epoch);
	cr_expect(!job.stop && recorded().halt == ASKED_NO_HALT);
}

Test(coordinator_halt, it_is_over_with_the_last_of_those_who_were_asked)
{
	begin();
	ask(COMMAND_HALT_AFTER);
	settle();
	hosts_node_down(&here.control, 1, -ECONNRESET, "it is down");
	outbox_deliver(&here.control);
	participation_leave(&job, false);
	settle();
	cr_expect(recorded().halt == ASKED_NO_HALT && recorded().halt_number == 2);
	restart();
	take_part();
	cr_expect(!job.halt.later.kind);
}

/* The ways to all of them were cut, and that alone. */
Test(coordinator_halt, it_holds_for_those_who_are_heard_again)
{
	begin();
	ask(COMMAND_HALT_AFTER);
	settle();
	hosts_node_down(&here.control, 1, -ECONNRESET, "it is not heard");
	outbox_deliver(&here.control);
	hosts_node_down(&here.control, 0, -ECONNRESET, "it is not heard");
	outbox_deliver(&here.control);
	cr_assert_eq(host_view(&here.control, "main").attending, 0u);
	settle();
	cr_expect_eq(recorded().halt, ASKED_HALT_AFTER_NEXT);
	job.halt = (struct halt){0};
	take_part();
	cr_expect_eq(job.halt.later.kind, COMMAND_HALT_AFTER);
}

static void finishes(uint32_t node)
{
	struct peer_report r = {.type = PEER_LEAVE, .job = "main", .epoch = job.epoch, .leave = PEER_RANKS_FINISHED};
	reports(node, &r);
}

Test(coordinator_halt, and_with_the_job)
{
	begin();
	ask(COMMAND_HALT);
	settle();
	finishes(0);
	finishes(1);
	cr_assert(host_has(&here.control, "main"), "it is on record first");
	settle();
	cr_assert_not(host_has(&here.control, "main"));
	cr_expect_eq(recorded().halt, ASKED_NO_HALT);
}

Test(coordinator_halt, a_job_that_nobody_coordinates_here_is_asked_nothing)
{
	cr_expect_eq(ask(COMMAND_HALT), -EAGAIN);
}
