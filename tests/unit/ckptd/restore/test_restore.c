/* What a node says it has, to restore from, and how it brings that into slots: out of its own memory, from nobody else, and not from storage. What
 * others bring: sim/test_replica, crash. */
#include "ckptd/job_maker.h"
#include "ckptd/job_of.h"
#include "cluster/roster.h"
#include "daemon.h"
#include "job/job.h"
#include "job/recovery_notes.h"
#include "job/restoring.h"
#include "job/saving.h"
#include "replication/replication.h"
#include "runtime/workers.h"
#include "save/saves_private.h"

#include "base/log.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>

static struct daemon here;
static struct job job;
static struct rank ranks[2];
static struct maker made; /* of the tests that need arenas */
static const struct step_id kept = {10, 1};

static void setup(void)
{
	static const char text[] = "n0 127.0.0.1:7000\nn1 127.0.0.1:7001\n";
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	daemon_init(&here);
	list_init(&here.jobs.list);
	list_init(&here.control.hosts);
	outbox_init(&here.control.outbox);
	cr_assert_eq(roster_parse("nodes", text, strlen(text), &here.peers.roster, &err), 0, "%s", err.text);
	cr_assert_eq(pool_new(1, &here.runtime.pool, &err), 0, "%s", err.text);
	job = (struct job){JOB_OF(here), .name = "main", .world = 4,    .nlocal = 2,
			   .epoch = 1,   .spread = true, .ranks = ranks};
	for (uint32_t r = 0; r < job.nlocal; r++)
		ranks[r] = (struct rank){.job = &job, .id = r, .index = r, .pidfd = -1};
	job_init_saves(&job);
	copying_init(&job);
	job_init_restore(&job);
	job_init_recoveries(&job);
	list_push(&here.jobs.list, &job.link);
}

static void teardown(void)
{
	pool_free(here.runtime.pool);
	saves_free(&job.saves);
	roster_free(here.peers.roster);
}

TestSuite(restore, .init = setup, .fini = teardown);

/* The next change of the world may begin before the processes of the last plan have registered. */
Test(restore, who_has_no_arenas_yet_says_that_nothing_is_there)
{
	struct pollfd fd = {.fd = pool_event_fd(here.runtime.pool), .events = POLLIN};
	restore_look(&job.restore, &(struct peer_look){.step = UINT64_MAX});
	cr_assert_not(restore_idle(&job.restore));
	while (job.restore.state == RESTORE_LOOK) {
		cr_assert_eq(poll(&fd, 1, 10000), 1, "nobody looks");
		pool_poll(here.runtime.pool);
	}
	cr_expect_eq(job.restore.state, RESTORE_FOUND);
	cr_expect_null(job.restore.work);
}

/* ---- bring ----------------------------------------------------------------------------------------------------- */

/* Both ranks wait for a restore in epoch 2, and step 10 stands in their first slots. */
static void setup_filled(void)
{
	static const uint32_t first[2] = {0, 0};
	setup();
	maker_new(&made, kept);
	job.world = MAKER_WORLD;
	for (uint32_t r = 0; r < job.nlocal; r++) {
		ranks[r].mem = made.mem[r];
		ranks[r].restoring = (struct waiting){.seq = 1, .deadline = UINT64_MAX};
	}
	cr_assert_eq(saves_adopt(&job.saves, kept, first), 0);
	cr_assert_not_null(saves_in_memory(&job.saves, kept.step));
	job.epoch = 2;
}

static void teardown_filled(void)
{
	restore_cancel(&job.restore);
	teardown();
	maker_free(&made);
}

TestSuite(restore_bring, .init = setup_filled, .fini = teardown_filled, .timeout = 60);

static void fetch(void)
{
	job.restore.state = RESTORE_FOUND;
	restore_fetch(&job.restore, &(struct peer_restore_fetch){.id = kept});
}

static void run_work(void)
{
	struct pollfd fd = {.fd = pool_event_fd(here.runtime.pool), .events = POLLIN};
	while (job.restore.work) {
		cr_assert_eq(poll(&fd, 1, 10000), 1, "nobody works");
		pool_poll(here.runtime.pool);
	}
}

static unsigned used(uint32_t rank)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < made.mem[rank]->nslots; i++)
		n += made.mem[rank]->slots[i].used;
	return n;
}

static void damage(uint32_t rank)
{
	((uint8_t *)memory_slot(made.mem[rank], 0))[5] ^= 1;
}

/* Slots are claimed for both ranks, and the part of the first is on its way from another node. */
static void begin_fetching(void)
{
	struct restore *restore = &job.restore;
	for (uint32_t r = 0; r < job.nlocal; r++) {
		restore->slots[r] = (uint32_t)memory_claim(made.mem[r], (struct step_id){.epoch = 2});
		restore->claimed[r] = memory_get(made.mem[r]);
	}
	restore->state = RESTORE_PEER;
	restore->lacking = 3;
	restore->fetching = 1;
}

/* The worker of the next order may run when the last fetch of this one ends. */
Test(restore_bring, the_next_order_to_look_leaves_no_slot_claimed)
{
	begin_fetching();
	cr_assert_eq(used(0), 2);
	restore_look(&job.restore, &(struct peer_look){.step = UINT64_MAX});
	restore_fetched(&job.restore, 0, &(struct replica_fetched){.job = "main", .id = kept, .rc = -ECONNRESET});
	restore_pump(&job.restore);
	run_work();
	cr_assert_eq(job.restore.state, RESTORE_FOUND);
	cr_expect(!job.restore.claimed[0] && !job.restore.claimed[1]);
	cr_expect(used(0) == 1 && used(1) == 1, "what is kept, and nothing else");
}

/* It was restored in a larger world than the saved one, and copied before anything was saved there. */
Test(restore_bring, a_rank_whose_copy_has_no_blobs_is_not_told_that_it_has)
{
	struct restore *restore = &job.restore;
	begin_fetching();
	restore->lacking = 1;
	restore->bring.id = (struct step_id){20, 1};
	memory_tell_lacks(made.mem[0], restore->slots[0], SLOT_NO_BLOBS); /* as the holder has said */
	restore_fetched(restore, 0, &(struct replica_fetched){.job = "main", .id = restore->bring.id});
	cr_assert_eq(restore->state, RESTORE_FETCHED, "%s", restore->text);
	cr_expect_eq(memory_lacks(made.mem[0], restore->slots[0]), SLOT_NO_BLOBS);
	cr_expect_eq(memory_lacks(made.mem[1], restore->slots[1]), 0);
}

Test(restore_bring, what_memory_has_is_checked_and_stays_where_it_is)
{
	struct peer_choice choice = {.id = kept, .source = WIRE_FROM_MEMORY};
	fetch();
	cr_assert_eq(job.restore.state, RESTORE_OWN);
	restore_finish(&job.restore, &choice);
	cr_assert_eq(job.restore.state, RESTORE_OWN, "nobody has looked at it yet");
	run_work();
	cr_assert_eq(job.restore.state, RESTORE_FETCHED);
	cr_expect(job.restore.source == WIRE_FROM_MEMORY && !job.restore.text[0]);
	cr_expect(used(0) == 1 && used(1) == 1);
	restore_finish(&job.restore, &choice);
	cr_expect(restore_idle(&job.restore) && job.restore.count == 1 && !step_compare(job.restore.last, kept));
	cr_expect(!ranks[0].restoring.seq && !ranks[1].restoring.seq);
}

Test(restore_bring, what_is_damaged_in_memory_is_passed_over_and_not_offered_again)
{
	damage(1);
	fetch();
	run_work();
	cr_assert_eq(job.restore.state, RESTORE_FETCHED);
	cr_expect(strstr(job.restore.text, "rank 1"), "%s", job.restore.text);
	cr_expect(strstr(job.restore.text, "it is not on storage"), "%s", job.restore.text);
	cr_expect_null(saves_in_memory(&job.saves, kept.step));
	cr_expect(!job.restore.claimed[0] && !job.restore.claimed[1]);
	cr_expect(!used(0) && !used(1), "what it was to be brought into is free");
}

static void expect_refused(void)
{
	cr_expect(restore_idle(&job.restore) && !job.restore.count && !job.restore.last.epoch);
	cr_expect(!ranks[0].restoring.seq && !ranks[1].restoring.seq, "they wait for ever");
}

/* They would take what is in their slots for the state of that step. */
Test(restore_bring, ranks_are_not_told_of_another_step_than_stands_in_their_slots)
{
	fetch();
	run_work();
	restore_finish(&job.restore, &(struct peer_choice){.id = {20, 1}, .source = WIRE_FROM_MEMORY});
	expect_refused();
}

Test(restore_bring, ranks_are_not_told_that_what_was_not_brought_is_restored)
{
	damage(1);
	fetch();
	run_work();
	cr_assert_eq(job.restore.state, RESTORE_FETCHED);
	restore_finish(&job.restore, &(struct peer_choice){.id = kept, .source = WIRE_FROM_MEMORY});
	expect_refused();
}

Test(restore_bring, what_nobody_has_asked_for_is_not_brought)
{
	restore_fetch(&job.restore, &(struct peer_restore_fetch){.id = kept});
	cr_expect_eq(job.restore.state, RESTORE_IDLE);
	cr_expect(!job.restore.work && !job.restore.bring.id.step);
}

Test(restore_bring, a_recovery_that_was_given_up_reports_nothing)
{
	fetch();
	restore_cancel(&job.restore);
	cr_expect_not(restore_idle(&job.restore), "a worker reads the slots");
	run_work();
	cr_expect(restore_idle(&job.restore) && !job.restore.count);
}

Test(restore_bring, the_next_one_begins_when_the_worker_of_the_last_has_ended)
{
	fetch();
	restore_cancel(&job.restore);
	restore_look(&job.restore, &(struct peer_look){.step = STEP_NEWEST});
	cr_expect(job.restore.asked && job.restore.state == RESTORE_IDLE);
	run_work();
	cr_expect_eq(job.restore.state, RESTORE_FOUND);
}

Test(restore_bring, without_a_free_slot_it_waits_for_one)
{
	static const struct step_id other = {20, 1};
	while (memory_claim(made.mem[1], other) >= 0)
		;
	damage(0);
	fetch();
	run_work();
	/* The one that was damaged was free by then. */
	cr_assert_eq(job.restore.state, RESTORE_FETCHED);
	cr_assert_geq(memory_claim(made.mem[1], other), 0);
	fetch();
	cr_assert_eq(job.restore.state, RESTORE_CLAIM);
	cr_expect(!job.restore.claimed[0] && !used(0), "it holds what it cannot use yet");
	memory_release(made.mem[1], 0, false);
	restore_pump(&job.restore);
	cr_expect_eq(job.restore.state, RESTORE_FETCHED);
}

/* Whole here, and not on another node. The newest one keeps its slots, and one that is being copied may keep the last. */
Test(restore_bring, what_was_passed_over_gives_its_slots_to_the_next_choice)
{
	static const struct step_id newer = {20, 1}, older = {5, 1};
	uint32_t slots[2];
	fetch();
	run_work();
	cr_assert_eq(job.restore.state, RESTORE_FETCHED);
	cr_assert(!job.restore.text[0], "%s", job.restore.text);
	for (uint32_t r = 0; r < job.nlocal; r++)
		slots[r] = (uint32_t)memory_claim(made.mem[r], newer);
	cr_assert_eq(saves_adopt(&job.saves, newer, slots), 0);
	for (uint32_t r = 0; r < job.nlocal; r++)
		while (memory_claim(made.mem[r], older) >= 0)
			;
	job.restore.state = RESTORE_FOUND;
	restore_fetch(&job.restore, &(struct peer_restore_fetch){.id = older});
	cr_assert_eq(job.restore.state, RESTORE_CLAIM);
	for (int tick = 0; tick < 2; tick++) {
		saves_pump(&job.saves);
		restore_pump(&job.restore);
	}
	cr_expect_eq(job.restore.state, RESTORE_FETCHED, "it waits for a slot");
}

Test(restore_bring, nobody_waits_for_a_slot_any_more)
{
	damage(0);
	fetch();
	ranks[1].restoring = (struct waiting){0};
	run_work();
	cr_assert_eq(job.restore.state, RESTORE_FETCHED);
	cr_expect(strstr(job.restore.text, "no free slot"), "%s", job.restore.text);
	cr_expect(!used(0) && !used(1));
}
