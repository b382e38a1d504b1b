/* What an earlier life of the daemon has left in arenas, when a new epoch begins before all of them are looked at. */
#include "ckptd/job_maker.h"
#include "ckptd/job_of.h"
#include "daemon.h"
#include "job/job.h"
#include "job/rank/rank.h"
#include "job/restoring.h"
#include "job/saving.h"
#include "save/saves_private.h"

#include "base/log.h"
#include "participant/orders.h"

#include <criterion/criterion.h>

static struct daemon d;
static struct job job;
static struct rank ranks[MAKER_WORLD];
static struct maker maker;

static const struct step_id left = {.step = 5, .epoch = 2};

/* All arenas are back, with a step that is complete in each of them; the coordinator has yet to say the epoch. */
static void setup(void)
{
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	daemon_init(&d);
	cr_assert_eq(pool_new(1, &d.runtime.pool, &err), 0, "%s", err.text);
	list_init(&d.jobs.list);
	list_init(&d.control.hosts);
	outbox_init(&d.control.outbox);
	maker_new(&maker, left);
	for (uint32_t r = 0; r < MAKER_WORLD; r++) {
		memory_complete(maker.mem[r], 0, left);
		maker.mem[r]->adopted = true;
		maker.mem[r]->slots[0].used = false;
		ranks[r] = (struct rank){
			.job = &job, .id = r, .index = r, .mem = maker.mem[r], .pidfd = -1, .arena_sent = true};
	}
	job = (struct job){JOB_OF(d),
			   .name = "main",
			   .world = 2 * MAKER_WORLD,
			   .nlocal = MAKER_WORLD,
			   .nslots = ARENA_SLOTS_MIN,
			   .ranks = ranks,
			   .spread = true};
	job_init_saves(&job);
	copying_init(&job);
	job_init_restore(&job);
	list_push(&d.jobs.list, &job.link);
}

static void teardown(void)
{
	pool_free(d.runtime.pool);
	saves_free(&job.saves);
	maker_free(&maker);
}

TestSuite(poison, .init = setup, .fini = teardown);

static void know_epoch(uint32_t epoch)
{
	struct peer_order order = {.type = PEER_RAISE, .job = "main", .word = {.epoch = epoch}};
	orders_obey(&d.dispatch, &order);
	cr_assert_eq(job.epoch, epoch);
}

static bool is_kept(void)
{
	const struct snapshot *s = saves_find(&job.saves, left);
	bool kept = s && s->state != SNAPSHOT_FAILED;
	for (uint32_t r = 0; kept && r < MAKER_WORLD; r++)
		kept = s->parts[r].state != PART_ABSENT && maker.mem[r]->slots[0].used;
	return kept;
}

Test(poison, what_is_complete_is_taken_when_the_epoch_is_known)
{
	know_epoch(3);
	cr_expect(is_kept());
}

Test(poison, what_a_rank_had_that_died_before_that_is_taken_too)
{
	job_disconnected(&job, &ranks[0]);
	ranks[0].arena_sent = false;
	know_epoch(3);
	cr_expect(is_kept());
}

Test(poison, what_lacks_the_part_of_an_arena_that_nobody_has_looked_at_is_no_failure)
{
	ranks[0].arena_sent = false; /* it connects anew */
	know_epoch(3);
	cr_expect_not(is_kept());
	ranks[0].arena_sent = true;
	saves_follow(&job.saves);
	cr_expect(is_kept());
}

Test(poison, what_lacks_a_part_that_no_arena_has_is_one)
{
	memory_release(maker.mem[0], 0, false);
	know_epoch(3);
	const struct snapshot *s = saves_find(&job.saves, left);
	cr_expect(!s || s->state == SNAPSHOT_FAILED);
}

/* The daemon was restarted while a rank was in its fence, and the epoch was raised before the arena was back. */
Test(poison, what_is_fenced_when_the_arena_shows_a_later_epoch_is_one)
{
	struct arena_slot *slot = &maker.mem[0]->head->slots[0];
	ranks[0].arena_sent = false;
	atomic_store(&slot->fenced, 0);
	know_epoch(3);
	ranks[0].arena_sent = true;
	saves_follow(&job.saves);
	atomic_store(&slot->fenced, 1);
	saves_follow(&job.saves);
	cr_expect_not(is_kept());
}

/* Complete here, and shown to nobody yet. */
static struct snapshot *waits_for_the_word(void)
{
	know_epoch(left.epoch);
	struct snapshot *s = saves_find(&job.saves, left);
	cr_assert(s);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		s->parts[r].state = PART_DIGESTED;
	s->state = SNAPSHOT_COPIED;
	s->opened_ns = 1;
	job.policy.save_timeout_ms = 1000;
	return s;
}

Test(poison, while_nobody_coordinates_what_is_complete_here_is_not_late)
{
	struct snapshot *s = waits_for_the_word();
	saves_apart(&job.saves, true);
	saves_expire(&job.saves);
	cr_expect_eq(s->rc, 0);
	saves_apart(&job.saves, false);
	saves_expire(&job.saves);
	cr_expect_eq(s->rc, 0, "the word has its time from now on");
}

Test(poison, what_is_complete_here_is_late_when_nobody_says_that_it_is_elsewhere)
{
	waits_for_the_word();
	saves_expire(&job.saves);
	const struct snapshot *s = saves_find(&job.saves, left);
	cr_expect(!s || s->rc == -ETIMEDOUT);
}
