/* What a node says to its coordinator when it is refused, and of epochs: job/participation.c, with a host in the same daemon. */
#include "ckptd/job_of.h"
#include "job/participation.h"

#include "base/clock.h"
#include "base/log.h"
#include "ckptd/job_maker.h"
#include "cluster/roster.h"
#include "config/sources.h"
#include "control/coordinator_host.h"
#include "control/membership.h"
#include "daemon.h"
#include "dispatch/coordinator_link.h"
#include "job/finish.h"
#include "job/halt.h"
#include "job/rank.h"
#include "job/resize.h"
#include "job/restoring.h"
#include "job/saving.h"
#include "participant/orders.h"
#include "runtime/workers.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct daemon here;
static struct job job;

static void setup(void)
{
	static const char text[] = "n0 127.0.0.1:7000\nn1 127.0.0.1:7001\n";
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	daemon_init(&here);
	list_init(&here.jobs.list);
	list_init(&here.control.hosts);
	cr_assert_eq(roster_parse("nodes", text, strlen(text), &here.peers.roster, &err), 0, "%s", err.text);
	cr_assert_eq(pool_new(1, &here.runtime.pool, &err), 0, "%s", err.text);
	cr_assert_eq(sources_new(&here.runtime.sources, &err), 0, "%s", err.text);
	job = (struct job){JOB_OF(here), .name = "main", .world = 4, .nlocal = 2, .spread = true};
	job.ranks = calloc(job.nlocal, sizeof(*job.ranks));
	cr_assert(job.ranks);
	job_init_saves(&job);
	copying_init(&job);
	job_init_restore(&job);
	list_push(&here.jobs.list, &job.link);
}

static void teardown(void)
{
	pool_free(here.runtime.pool);
	hosts_free(&here.control);
	sources_free(here.runtime.sources);
	roster_free(here.peers.roster);
	free(job.ranks);
}

TestSuite(participation, .init = setup, .fini = teardown);

/* The other node, with another world. */
static void other(enum peer_type type)
{
	struct peer_report r = {.type = type, .job = "main"};
	if (type == PEER_NODE_JOIN)
		r.node_join = (struct peer_node_join){.world = 6, .nranks = 6};
	host_report(&here.control, 1, true, &r);
}

static void wait_for_epoch(void)
{
	struct pollfd fd = {.fd = pool_event_fd(here.runtime.pool), .events = POLLIN};
	while (!job.epoch) {
		cr_assert_eq(poll(&fd, 1, 10000), 1, "nothing is recorded");
		pool_poll(here.runtime.pool);
	}
}

Test(participation, who_is_refused_for_what_passes_joins_again)
{
	other(PEER_NODE_JOIN);
	participation_join(&job);
	cr_expect_eq(host_view(&here.control, "main").world, 6u);
	cr_assert_gt(job.join_ns, clock_now(), "it asks no more, and nobody tells it");
	participation_tick(&job);
	cr_expect_gt(job.join_ns, clock_now(), "not before its time");
	job.join_ns = clock_now();
	participation_tick(&job);
	cr_expect_gt(job.join_ns, clock_now(), "refused again");
	other(PEER_LEAVE);
	job.join_ns = clock_now();
	participation_tick(&job);
	cr_expect_eq(host_view(&here.control, "main").world, job.world);
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	cr_expect_eq(job.join_ns, 0u);
	wait_for_epoch();
	cr_expect_eq(job.epoch, 1u);
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
		participation_join(&job);
	cr_expect_eq(lines_in(log, "runs with world size 6"), 2u, "here, and where it is coordinated");
	other(PEER_LEAVE);
	participation_join(&job);
	wait_for_epoch();
	participation_leave(&job);
	other(PEER_NODE_JOIN);
	participation_join(&job);
	cr_expect_eq(lines_in(log, "runs with world size 6"), 4u, "it was over meanwhile");
	fclose(log);
}

Test(participation, who_contradicts_the_job_does_not_ask_again)
{
	struct peer_order order = {.type = PEER_REJECT, .job = "main", .word = {.rc = -EINVAL, .text = "no"}};
	orders_obey(&here.dispatch, &order);
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
	cr_expect_eq(job.epoch, 0u);
	cr_expect_eq(host_view(&here.control, "main").attending, 0u, "it says that it waits to enter");
	cr_expect(restore_idle(&job.restore));
}

static void ask(enum wire_command_kind kind)
{
	struct wire_answer answer = {0};
	struct err err = {{0}};
	const struct wire_command command = {.kind = kind};
	here.storage.root = 0; /* as if there were a store */
	cr_assert_eq(halt_request(&job, &command, &answer, &err), 0, "%s", err.text);
	here.storage.root = -1;
}

/* This node, after its daemon was restarted. */
static void come_back(void)
{
	job.stop = false;
	job.halt = (struct halt){0};
	participation_join(&job);
}

Test(participation, who_was_not_there_when_the_others_were_asked_to_end_is_asked_when_it_joins)
{
	participation_join(&job);
	struct peer_report r = {.type = PEER_REQUEST, .job = "main", .request.command.kind = COMMAND_HALT};
	host_report(&here.control, 1, true, &r);
	come_back();
	cr_expect(job.stop);
}

/* Of a world of 6, which the other node alone has come with. */
static void halt_of_the_other(void)
{
	struct peer_report r = {.type = PEER_REQUEST, .job = "main", .request.command.kind = COMMAND_HALT};
	other(PEER_NODE_JOIN);
	host_report(&here.control, 1, true, &r);
	job.world = 6;
}

Test(participation, what_a_job_was_asked_does_not_outlive_the_last_node_of_it)
{
	halt_of_the_other();
	list_remove(&job.link);
	hosts_node_down(&here.control, 1, -ECONNRESET, "it is down");
	cr_assert_eq(host_view(&here.control, "main").attending, 0u);
	list_push(&here.jobs.list, &job.link);
	participation_join(&job);
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	cr_expect(!job.stop, "that was another life of the job");
}

/* It was killed before it had ended, and waits for others (node-wait). */
Test(participation, nor_that_of_a_job_whose_ranks_are_planned)
{
	struct peer_report assignment = {
		.type = PEER_CAPACITY, .job = "main", .assignment = {.want = 2, .least = 2, .processes = 2}};
	struct peer_report ask = {.type = PEER_REQUEST, .job = "main", .request.command.kind = COMMAND_HALT};
	list_remove(&job.link);
	host_report(&here.control, 0, true, &assignment);
	cr_assert_eq(membership_plan(&here.control, "main"), 1u);
	list_push(&here.jobs.list, &job.link);
	job.world = 2;
	job.resize.plan = 1;
	participation_join(&job);
	host_report(&here.control, 0, true, &ask);
	participation_leave(&job);
	cr_assert(host_has(&here.control, "main") && !host_view(&here.control, "main").attending);
	come_back();
	cr_assert_eq(host_view(&here.control, "main").attending, 2u);
	cr_expect(!job.stop);
}

Test(participation, but_holds_for_who_comes_with_another_world_of_the_same_job)
{
	struct err err = {{0}};
	halt_of_the_other();
	cr_assert_eq(host_remake(&here.control, "main", 5, true, &err), 0, "%s", err.text);
	job.world = 4;
	participation_join(&job);
	cr_expect_eq(host_view(&here.control, "main").world, 4u);
	cr_expect(job.stop);
}

/* That the store cannot be read for a moment is no reason to forget it. */
Test(participation, also_where_the_world_could_not_be_made_at_first)
{
	struct err err = {{0}};
	struct peer_report assignment = {
		.type = PEER_CAPACITY, .job = "main", .assignment = {.want = 6, .least = 6, .processes = 4}};
	struct peer_report halt = {.type = PEER_REQUEST, .job = "main", .request.command.kind = COMMAND_HALT};
	struct peer_report node_join = {
		.type = PEER_NODE_JOIN, .job = "main", .node_join = {6, .nranks = 4, .plan = 1}};
	list_remove(&job.link);
	host_report(&here.control, 1, true, &assignment);
	assignment.assignment.processes = job.nlocal;
	host_report(&here.control, 0, true, &assignment);
	host_report(&here.control, 1, true, &node_join);
	host_report(&here.control, 1, true, &halt);
	here.runtime.config.store = "/nothing/is/here";
	cr_assert_lt(host_remake(&here.control, "main", 6, true, &err), 0);
	cr_assert_not(host_has(&here.control, "main"));
	here.runtime.config.store = NULL;
	list_push(&here.jobs.list, &job.link);
	job.world = 6;
	job.resize.plan = 1;
	participation_join(&job);
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	cr_expect(job.stop);
}

Test(participation, the_checkpoint_after_which_one_node_ends_is_that_of_all)
{
	participation_join(&job);
	ask(COMMAND_HALT_AFTER);
	come_back();
	cr_expect(!job.stop, "it has not begun");
	ask(COMMAND_HALT_AFTER);
	halt_durable(&job);
	cr_expect(job.stop);
	come_back();
	cr_expect(job.stop, "the others were not told");
}

Test(participation, a_coordinator_that_has_not_heard_who_is_to_end_is_told_when_it_is_back)
{
	ask(COMMAND_HALT);
	coordinator_link_up(&job);
	wait_for_epoch();
	come_back();
	cr_expect(job.stop, "the others go on alone");
}

/* It was cut off while its job was halted, and that runs again elsewhere. */
Test(participation, but_not_before_this_node_has_a_place_in_the_job_that_is_there_now)
{
	other(PEER_NODE_JOIN);
	ask(COMMAND_HALT);
	coordinator_link_up(&job);
	cr_assert_eq(host_view(&here.control, "main").attending, 6u, "it is taken for one of that");
	cr_expect(job.halt.again);
	job.world = 6;
	come_back(); /* another one of that job */
	cr_expect(!job.stop);
}

Test(participation, and_is_told_also_when_that_is_late)
{
	ask(COMMAND_HALT);
	other(PEER_NODE_JOIN);
	coordinator_link_up(&job);
	other(PEER_LEAVE);
	job.join_ns = clock_now();
	participation_tick(&job);
	wait_for_epoch();
	come_back();
	cr_expect(job.stop, "the others go on alone");
}

Test(participation, but_not_what_a_launcher_alone_has_asked)
{
	job_stop(&job);
	coordinator_link_up(&job);
	come_back();
	cr_expect(!job.stop);
}

Test(participation, what_is_asked_for_later_is_forgotten_by_who_would_not_hear_that_it_is_taken_back)
{
	participation_join(&job);
	ask(COMMAND_HALT_AFTER);
	coordinator_link_down(&job);
	halt_durable(&job);
	cr_expect(!job.stop);
	ask(COMMAND_GO_ON); /* others may know of it */
}

Test(participation, there_is_nothing_to_take_back_where_a_job_is_on_one_node_alone)
{
	struct wire_answer answer = {0};
	struct err err = {{0}};
	job.spread = false;
	cr_expect_eq(halt_request(&job, &(struct wire_command){.kind = COMMAND_GO_ON}, &answer, &err), -EINVAL);
	job.spread = true;
	job.stop = true;
	cr_expect_eq(halt_request(&job, &(struct wire_command){.kind = COMMAND_GO_ON}, &answer, &err), -EINVAL);
}

Test(participation, who_has_no_part_in_a_plan_that_was_made_twice_does_not_join)
{
	struct peer_report assignment = {
		.type = PEER_CAPACITY, .job = "main", .assignment = {.want = 2, .least = 2, .processes = 2}};
	struct peer_report node_join = {
		.type = PEER_NODE_JOIN, .job = "main", .node_join = {.world = 2, .nranks = 1, .plan = 1}};
	list_remove(&job.link);
	host_report(&here.control, 0, true, &assignment);
	cr_assert_eq(membership_plan(&here.control, "main"), 1u);
	host_report(&here.control, 1, true, &node_join);
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
	host_report(&here.control, 1, true, &assignment);
	host_report(&here.control, 1, true, &node_join);
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
	host_report(&here.control, 1, true, &assignment);
	cr_assert_eq(membership_plan(&here.control, "main"), 1u);
	job.has_arenas = true;
	participation_join(&job);
	cr_expect_eq(host_view(&here.control, "main").attending, 0u);
	host_abandon(&here.control, "main");
	resize_end(&job);
	cr_assert_gt(job.join_ns, clock_now(), "nobody else tells it");
	job.join_ns = clock_now();
	participation_tick(&job);
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	wait_for_epoch();
	resize_end(&job);
	cr_expect_eq(job.join_ns, 0u, "it was its own end");
}

Test(participation, an_epoch_that_somebody_comes_from_is_not_entered_again)
{
	participation_join(&job);
	wait_for_epoch();
	cr_assert_eq(job.epoch, 1u);
	participation_knows(&job, WITNESS_RANK, 1); /* which it entered with an earlier life of both daemons */
	cr_expect_eq(job.epoch, 0u, "nobody is to enter it");
	wait_for_epoch();
	cr_expect_eq(job.epoch, 2u);
}

Test(participation, who_comes_back_to_the_daemon_with_which_it_entered_begins_nothing)
{
	participation_join(&job);
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
	cr_expect_not(host_has(&here.control, "main"), "as long as none is there it says nothing");
	job.ranks[1].pid = 7;
	finish_tick(&job);
	cr_expect_eq(host_view(&here.control, "main").attending, job.nlocal);
	cr_expect_eq(job.finish.stand, FINISH_NONE);
}
