#include "ckptd/job_of.h"
#include "job/resize.h"

#include "base/clock.h"
#include "fakes.h"
#include "runtime/loop.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { EACH = 2 };

static struct daemon daemon;
static struct job job;
static struct snapshot newest;
static struct roster *const some = (struct roster *)&daemon;

/* A node with a launcher, to which nothing was said yet. */
static void setup(void)
{
	struct err err = {{0}};
	fakes_reset();
	daemon_init(&daemon);
	daemon.storage.root = 3;
	daemon.peers.roster = some;
	daemon.runtime.config.node = "n1";
	cr_assert_eq(loop_new(&daemon.runtime.loop, &err), 0, "%s", err.text);
	job = (struct job){JOB_OF(daemon), .name = "gpt", .launcher = (struct client *)&job};
	copying_init(&job);
	fake_saves.job = &job;
	newest = (struct snapshot){.id = {7, 1}, .state = SNAPSHOT_CAPTURED};
}

static void teardown(void)
{
	free(job.ranks);
	loop_free(daemon.runtime.loop);
}

TestSuite(resize, .init = setup, .fini = teardown);

static struct wire_offer offer_of(uint32_t processes)
{
	return (struct wire_offer){.want = 6, .least = 2, .processes = processes, .spread = true};
}

static int offer(const struct wire_offer *m)
{
	struct err err = {{0}};
	int rc = resize_offer(&job, 9, m, &err);
	cr_expect_eq(rc != 0, err.text[0] != 0);
	return rc;
}

/* Rank r of this node was `was` before. */
static void plan(uint32_t number, uint32_t world, uint32_t n, const uint32_t *ranks, const uint32_t *was)
{
	struct wire_plan m = {.number = number, .world = world, .n = n};
	for (uint32_t r = 0; r < n; r++) {
		m.ranks[r] = ranks[r];
		m.was[r] = was ? was[r] : WIRE_NEW_PROCESS;
	}
	resize_plan(&job, &m);
	resize_tick(&job);
}

/* At work: ranks 2 and 3 of 6, whose processes are there. */
static void begin(void)
{
	struct wire_offer m = offer_of(EACH);
	cr_assert_eq(offer(&m), 0);
	plan(1, 6, EACH, (uint32_t[]){2, 3}, NULL);
	for (uint32_t r = 0; r < EACH; r++) {
		job.ranks[r].client = (struct client *)&job.ranks[r];
		job.ranks[r].pid = 100 + (int)r;
		job.ranks[r].state = RANK_JOINED;
		job.ranks[r].arena_sent = true;
	}
	m.plan = 1;
	m.n = EACH;
	m.ranks[0] = 2;
	m.ranks[1] = 3;
	cr_assert_eq(offer(&m), 0);
}

/* ---- offers ----------------------------------------------------------------------------------------------------- */

Test(resize, what_the_launcher_offers_goes_to_the_coordinator)
{
	struct wire_offer m = offer_of(EACH);
	m.spare = true;
	cr_assert_eq(offer(&m), 0);
	const struct peer_capacity *said = &fake_participant.assignment;
	cr_expect(fake_participant.assignments == 1 && said->want == 6 && said->least == 2 && said->processes == EACH &&
		  said->spare);
	cr_expect(said->plan == 0 && said->n == 0);
	resize_say(&job);
	cr_expect_eq(fake_participant.assignments, 2);
}

Test(resize, an_offer_that_cannot_be_kept_is_refused)
{
	struct wire_offer m = offer_of(EACH);
	daemon.storage.root = -1;
	cr_expect_eq(offer(&m), -EINVAL, "another world takes its state from a store");
	m.least = m.want;
	cr_expect_eq(offer(&m), 0);
	daemon.storage.root = 3;
	daemon.peers.roster = NULL;
	cr_expect_eq(offer(&m), -EOPNOTSUPP);
	daemon.peers.roster = some;
	job.world = 8;
	cr_expect_eq(offer(&m), -EINVAL, "it has more ranks");
}

Test(resize, a_launcher_that_goes_takes_its_processes_with_it)
{
	begin();
	unsigned assignments = fake_participant.assignments;
	job.launcher = NULL;
	resize_abandoned(&job);
	cr_expect(fake_participant.assignments == assignments + 1 && fake_participant.assignment.processes == 0 &&
		  fake_participant.assignment.n == 0);
	resize_say(&job);
	cr_expect_eq(fake_participant.assignments, assignments + 1, "nothing is offered any more");
}

Test(resize, a_launcher_whose_ranks_have_finished_is_not_missed)
{
	begin();
	unsigned assignments = fake_participant.assignments;
	for (uint32_t r = 0; r < EACH; r++)
		job.ranks[r].state = RANK_LEFT;
	resize_abandoned(&job);
	cr_expect_eq(fake_participant.assignments, assignments);
	job.launcher = NULL;
	plan(2, 6, EACH, (const uint32_t[]){0, 1}, (const uint32_t[]){0, 1});
	cr_expect(fake_participant.assignments == assignments + 1 && fake_participant.assignment.processes == 0,
		  "unless it is to start them again");
}

Test(resize, a_refusal_is_the_answer_to_the_offer)
{
	resize_refused(&job, -EIO, "no");
	cr_expect_eq(fake_client.rc, 0, "nothing was offered");
	struct wire_offer m = offer_of(EACH);
	cr_assert_eq(offer(&m), 0);
	resize_refused(&job, -EIO, "the store says no");
	cr_expect(fake_client.rc == -EIO && fake_client.seq == 9);
	cr_expect_str_eq(fake_client.text, "the store says no");
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

Test(resize, a_plan_gives_the_node_its_ranks_and_a_place)
{
	begin();
	cr_expect(job.nlocal == EACH && job.world == 6 && job.ranks[0].id == 2 && job.ranks[1].id == 3);
	cr_expect_eq(fake_participant.taken, 1);
	cr_expect(fake_client.type == WIRE_PLAN && fake_client.plan.number == 1 && fake_client.plan.n == EACH);
	cr_expect(fake_participant.assignment.plan == 1 && fake_participant.assignment.world == 6 &&
		  fake_participant.assignment.n == EACH);
}

Test(resize, a_plan_that_is_over_is_not_followed)
{
	begin();
	plan(1, 4, 1, (uint32_t[]){0}, NULL);
	cr_expect(job.world == 6 && job.nlocal == EACH);
}

Test(resize, a_plan_waits_until_nothing_is_under_way)
{
	begin();
	fake_saves.running = true;
	plan(2, 4, EACH, (uint32_t[]){2, 3}, (uint32_t[]){2, 3});
	cr_expect_eq(job.world, 6);
	fake_saves.running = false;
	job.restore.state = RESTORE_LOOK;
	resize_tick(&job);
	cr_expect_eq(job.world, 6);
	job.restore.state = RESTORE_IDLE;
	resize_tick(&job);
	cr_expect_eq(job.world, 4);
	cr_expect_eq(fake_participant.taken, 2);
}

/* The others have gone on without it: what is under way here waits for nobody. */
Test(resize, a_node_that_was_replaced_waits_for_nothing)
{
	begin();
	fake_saves.running = true;
	job.restore.state = RESTORE_LOOK;
	resize_apart(&job, true);
	plan(2, 4, EACH, (uint32_t[]){2, 3}, (uint32_t[]){2, 3});
	cr_expect_eq(job.world, 4);
	cr_expect(!job.resize.apart);
}

Test(resize, sound_processes_go_on_and_learn_who_they_are)
{
	begin();
	struct client *second = job.ranks[1].client;
	plan(2, 4, EACH, (uint32_t[]){1, 2}, (uint32_t[]){3, WIRE_NEW_PROCESS});
	cr_expect(job.ranks[0].id == 1 && job.ranks[0].client == second && job.ranks[0].moved);
	cr_expect(!job.ranks[1].client && !job.ranks[1].moved);
	cr_expect_eq(fake_client.detached, 1, "the other one is let go");
	struct registration old = {.rank = 3, .world = 6}, new = {.rank = 1, .world = 4};
	cr_expect(resize_tell(&job.ranks[0], 5, &old));
	cr_expect(fake_client.type == WIRE_MOVED && fake_client.seq == 5);
	cr_expect(fake_client.moved.rank == 1 && fake_client.moved.world == 4 && fake_client.moved.local_world == EACH);
	cr_expect(!resize_tell(&job.ranks[0], 6, &new), "now it knows");
	cr_expect(!resize_tell(&job.ranks[0], 7, NULL));
}

Test(resize, who_waits_for_a_restore_is_told_that_the_world_has_changed)
{
	begin();
	job.ranks[1].restoring.seq = 12;
	plan(2, 4, 1, (uint32_t[]){1}, (uint32_t[]){3});
	cr_expect_eq(fake_client.rc, -ESTALE, "it would wait for ever");
	cr_expect(job.ranks[0].moved && !job.ranks[0].restoring.seq);
}

Test(resize, a_plan_that_changes_nothing_here_touches_nothing)
{
	begin();
	const struct rank *ranks = job.ranks;
	plan(2, 6, EACH, (uint32_t[]){2, 3}, (uint32_t[]){2, 3});
	cr_expect(job.ranks == ranks && job.ranks[0].client && !job.ranks[0].moved);
	cr_expect(job.resize.plan == 2 && fake_client.plan.number == 2 && fake_participant.assignment.plan == 2);
}

Test(resize, a_node_without_ranks_leaves_its_place)
{
	begin();
	plan(2, 4, 0, NULL, NULL);
	cr_expect(job.nlocal == 0 && fake_participant.left == 1 && fake_client.detached == EACH);
	cr_expect_eq(fake_participant.assignment.processes, EACH, "it waits");
	cr_expect(fake_participant.assignment.plan == 2 && fake_participant.assignment.world == 4 &&
			  !fake_participant.assignment.n,
		  "and can tell a later life of the coordinator");
	job.launcher = NULL;
	resize_abandoned(&job);
	cr_expect(!fake_participant.assignment.processes && !fake_participant.assignment.world,
		  "nobody has anything here");
}

Test(resize, a_place_that_cannot_be_taken_is_tried_again)
{
	fake_participant.take_rc = -EIO;
	struct wire_offer m = offer_of(EACH);
	cr_assert_eq(offer(&m), 0);
	plan(1, 6, EACH, (uint32_t[]){2, 3}, NULL);
	resize_tick(&job);
	cr_expect_eq(fake_participant.taken, 1);
	clock_skip(3 * CLOCK_NS_PER_S);
	fake_participant.take_rc = 0;
	resize_tick(&job);
	resize_tick(&job);
	cr_expect_eq(fake_participant.taken, 2);
}

Test(resize, the_end_is_a_plan_without_a_world)
{
	begin();
	resize_end(&job);
	cr_expect(fake_client.type == WIRE_PLAN && !fake_client.plan.number && !fake_client.plan.world);
}

/* ---- quiescing --------------------------------------------------------------------------------------------------- */

Test(resize, processes_that_the_daemon_has_lost_are_waited_for)
{
	begin();
	job.ranks[1].client = NULL;
	resize_quiesce(&job, 1);
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 0);
	clock_skip(6 * CLOCK_NS_PER_S);
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 1, "not for ever");
}

Test(resize, processes_that_are_gone_with_their_launcher_are_not_waited_for)
{
	begin();
	for (uint32_t r = 0; r < EACH; r++)
		job.ranks[r].client = NULL;
	job.launcher = NULL;
	resize_abandoned(&job);
	resize_quiesce(&job, 1);
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 1);
}

/* What is in it may be the only copy of what is newest. */
Test(resize, arenas_that_nobody_has_looked_at_yet_are_waited_for)
{
	begin();
	job.ranks[1].arena_sent = false;
	resize_quiesce(&job, 1);
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 0, "its process is there, and has not registered");
	job.ranks[1].arena_sent = true;
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 1);
}

/* ---- restarts --------------------------------------------------------------------------------------------------- */

Test(resize, after_a_restart_the_launcher_knows_which_ranks_are_here)
{
	static struct rank places[EACH];
	job.ranks = places;
	job.nlocal = EACH;
	job.world = 6;
	job.spread = true;
	for (uint32_t r = 0; r < EACH; r++)
		places[r] = (struct rank){.job = &job, .id = RANK_MAX, .index = r};
	struct wire_offer m = offer_of(EACH);
	m.plan = 4;
	m.n = EACH;
	m.ranks[0] = 4;
	m.ranks[1] = 5;
	cr_assert_eq(offer(&m), 0);
	cr_expect(job.resize.plan == 4 && places[0].id == 4 && places[1].id == 5);
	cr_expect(fake_participant.assignment.plan == 4 && fake_participant.assignment.n == EACH &&
		  fake_participant.assignment.ranks[1] == 5);
	cr_expect_eq(fake_participant.attended, 1);
	job.ranks = NULL;
}

Test(resize, a_launcher_that_was_restarted_is_told_the_plan_and_has_nobody_of_it)
{
	begin();
	job.resize.offered = false;
	unsigned sent = fake_client.sent;
	struct wire_offer m = offer_of(EACH);
	cr_assert_eq(offer(&m), 0);
	cr_expect(fake_client.sent == sent + 1 && fake_client.plan.number == 1 && fake_client.plan.n == EACH);
	cr_expect_eq(fake_client.plan.was[0], WIRE_NEW_PROCESS);
	cr_expect_eq(fake_participant.attended, 1, "the coordinator may have begun anew, and nobody told it the plan");
}

/* Another one is pending, in which those ranks may be others'. */
Test(resize, a_launcher_that_was_restarted_is_not_told_a_plan_that_is_over)
{
	begin();
	job.resize.offered = false;
	fake_saves.running = true;
	plan(2, 6, 0, NULL, NULL);
	unsigned sent = fake_client.sent;
	struct wire_offer m = offer_of(EACH);
	cr_assert_eq(offer(&m), 0);
	cr_expect_eq(fake_client.sent, sent);
	fake_saves.running = false;
	resize_tick(&job);
	cr_expect(fake_client.plan.number == 2 && fake_client.plan.n == 0);
}

/* After a restart of the daemon a process came that had a rank by a plan which is over. */
Test(resize, who_has_come_in_the_place_of_another_rank_is_turned_out)
{
	begin();
	job.resize = (struct resize){0};
	job.ranks[0].id = 0;
	struct wire_offer m = offer_of(EACH);
	m.plan = 3;
	m.n = EACH;
	m.ranks[0] = 2;
	m.ranks[1] = 3;
	unsigned detached = fake_client.detached;
	cr_assert_eq(offer(&m), 0);
	cr_expect(job_rank(&job, 2) && job_rank(&job, 3) && !job_rank(&job, 0));
	cr_expect_eq(fake_client.detached, detached + EACH, "all come again");
	cr_expect(resize_let_go(&job, 100) && !resize_let_go(&job, 101), "but for him");
	cr_expect(fake_participant.left == 1 && fake_participant.comes_again && fake_participant.assignment.plan == 3 &&
		  fake_participant.assignment.n == EACH);
}

Test(resize, a_job_that_is_at_work_without_a_plan_is_not_turned_out)
{
	begin();
	struct wire_offer m = offer_of(EACH);
	job.resize = (struct resize){0};
	m.plan = 3;
	m.n = EACH;
	m.ranks[0] = 4;
	m.ranks[1] = 5;
	job.entered = 2;
	cr_assert_eq(offer(&m), -EBUSY);
	job.entered = 0;
	m.want = 20;
	m.ranks[1] = 6;
	cr_assert_eq(offer(&m), -EINVAL, "there is no such rank");
	cr_expect(job_rank(&job, 2) && job_rank(&job, 3) && !fake_participant.left);
}

/* Nobody says what becomes of what it has under way. */
Test(resize, who_has_no_place_by_the_plan_that_holds_gives_up_what_he_has_under_way)
{
	begin();
	resize_invalidate_plan(&job, 1);
	cr_expect(!job.resize.apart, "he follows it");
	resize_invalidate_plan(&job, 3);
	fake_saves.running = true;
	plan(3, 6, 0, NULL, NULL);
	cr_expect(!job.nlocal && fake_client.plan.number == 3);
}

/* Between them they know it for as long as one of the two is there. */
Test(resize, that_a_node_is_drained_is_known_to_daemon_and_launcher)
{
	begin();
	resize_drain(&job, true);
	cr_expect(fake_client.type == WIRE_COMMAND && fake_client.command.kind == COMMAND_DRAIN);
	cr_expect_str_eq(fake_client.command.node, "n1");
	resize_say(&job);
	cr_expect(fake_participant.assignment.drained);
	job.resize = (struct resize){.plan = 1}; /* another life */
	struct wire_offer m = offer_of(EACH);
	m.drained = true;
	cr_assert_eq(offer(&m), 0);
	cr_expect(fake_participant.assignment.drained, "the launcher has said so");
	resize_drain(&job, false);
	cr_expect_eq(fake_client.command.kind, COMMAND_UNDRAIN);
	cr_assert_eq(offer(&m), 0);
	cr_expect(!fake_participant.assignment.drained && fake_client.command.kind == COMMAND_UNDRAIN,
		  "it has not heard of that yet");
	resize_drain(&job, true);
	resize_end(&job);
	resize_say(&job);
	cr_expect(!fake_participant.assignment.drained, "the next job of that name begins with all nodes");
}

/* The world may change again before a node has followed. */
Test(resize, what_it_is_to_settle_in_the_next_plan_it_settles_when_it_follows)
{
	begin();
	fake_saves.running = true;
	plan(2, 4, EACH, (uint32_t[]){2, 3}, (uint32_t[]){2, 3});
	resize_quiesce(&job, 2);
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 0);
	fake_saves.running = false;
	resize_tick(&job);
	resize_tick(&job);
	cr_expect(fake_participant.quiesced == 1 && fake_participant.said.plan == 2);
}

Test(resize, what_it_will_never_follow_it_need_not_settle)
{
	begin();
	fake_saves.running = true;
	plan(2, 4, EACH, (uint32_t[]){2, 3}, (uint32_t[]){2, 3});
	resize_quiesce(&job, 2);
	job.launcher = NULL;
	resize_abandoned(&job);
	fake_saves.running = false;
	resize_tick(&job);
	cr_expect(fake_participant.quiesced == 1 && fake_participant.said.plan == 2 && fake_participant.said.rc == 0);
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 1);
}
