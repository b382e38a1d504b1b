/* What stays in memory where slots are scarce, on a node of a job that is spread. */
#include "ckptd/save/saved_job.h"
#include "job/restoring.h"
#include "participant/participant.h"
#include "save/saves_private.h"

#include "config/setting.h"
#include "participant/orders.h"

#include <criterion/criterion.h>

static struct daemon d;
static struct job job;
static struct rank ranks[MAKER_WORLD];
static struct maker maker;

/* Captured in epoch 2, which had begun with step 1, and shown to be so on all nodes. */
static const struct step_id begun_with = {.step = 1, .epoch = 1}, newest = {.step = 5, .epoch = 2};

static void setup(void)
{
	static const uint32_t slots[MAKER_WORLD] = {0};
	saved_job_begin(&d, &job, ranks, &maker, newest, true);
	saves_resume(&job.saves, begun_with);
	cr_assert_eq(saves_adopt(&job.saves, newest, slots), 0);
}

static void teardown(void)
{
	saves_free(&job.saves);
	maker_free(&maker);
}

TestSuite(reclaim, .init = setup, .fini = teardown);

static void take_all_slots(void)
{
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		while (memory_claim(maker.mem[r], (struct step_id){.epoch = job.epoch}) >= 0)
			;
	cr_assert(saves_lack_slots(&job.saves));
}

static void raise_epoch(void)
{
	struct peer_order order = {.type = PEER_RAISE, .job = "main", .word = {.epoch = job.epoch + 1}};
	orders_obey(&d.dispatch, &order);
	cr_assert_eq(job.epoch, order.word.epoch);
}

static bool is_kept(void)
{
	const struct snapshot *s = saves_in_memory(&job.saves, UINT64_MAX);
	return s && !step_compare(s->id, newest) && maker.mem[0]->slots[0].used;
}

/* Others may have been shown it, and go on from it. */
Test(reclaim, what_is_newest_in_memory_outlives_its_epoch_where_slots_are_scarce)
{
	take_all_slots();
	raise_epoch();
	cr_expect(is_kept());
	saves_pump(&job.saves);
	cr_expect(is_kept());
}

Test(reclaim, what_a_restore_has_passed_over_goes_where_slots_are_scarce)
{
	raise_epoch();
	saves_resume(&job.saves, begun_with);
	saves_pump(&job.saves);
	cr_expect(is_kept());
	take_all_slots();
	saves_pump(&job.saves);
	cr_expect_not(is_kept());
}

static void refuse_restore(uint64_t step)
{
	job.restore.step = step;
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		ranks[r].restoring.seq = 1;
	restore_refuse(&job.restore, -ENOENT, "there is no checkpoint to restore", "");
}

/* As after the loss of two nodes: all ranks had copies once. */
static void replicate_newest(void)
{
	static char some_replica;
	d.peers.replica = (struct replica *)&some_replica; /* nobody is asked to send or to forget */
	job.policy.copies = 1;
	copies_replicated(&job.copies, newest);
	cr_assert(copies_keep(&job.copies, newest));
}

Test(reclaim, what_was_replicated_goes_where_a_job_begins_afresh_and_slots_are_scarce)
{
	raise_epoch();
	replicate_newest();
	take_all_slots();
	refuse_restore(STEP_NEWEST);
	cr_expect(job.saves.resumed_in == job.epoch && !job.saves.resumed.epoch);
	saves_pump(&job.saves);
	cr_expect_not(is_kept());
}

/* That no other step is found does not say that this one cannot be had. */
Test(reclaim, what_was_replicated_stays_where_an_older_step_was_wanted)
{
	raise_epoch();
	replicate_newest();
	take_all_slots();
	refuse_restore(4);
	saves_pump(&job.saves);
	cr_expect(is_kept());
}

/* Another node may hold all parts of it. */
Test(reclaim, what_was_replicated_stays_where_something_older_was_restored)
{
	raise_epoch();
	replicate_newest();
	take_all_slots();
	saves_resume(&job.saves, begun_with);
	saves_pump(&job.saves);
	cr_expect(is_kept());
}

/* Complete on this node; the coordinator has not said that it is on the other one. */
static struct snapshot *complete_here(uint64_t step, uint32_t slot)
{
	uint32_t slots[MAKER_WORLD];
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		slots[r] = slot;
	job.saves.walking++; /* nothing is given back before it is what it is to be */
	cr_assert_eq(saves_adopt(&job.saves, (struct step_id){.step = step, .epoch = job.epoch}, slots), 0);
	struct snapshot *s = saves_find(&job.saves, (struct step_id){.step = step, .epoch = job.epoch});
	cr_assert(s);
	s->state = SNAPSHOT_COPIED;
	job.saves.walking--;
	return s;
}

static bool stands(uint64_t step)
{
	const struct snapshot *s = saves_find(&job.saves, (struct step_id){.step = step, .epoch = job.epoch});
	return s && !s->rc && snapshot_has_slots(s);
}

Test(reclaim, while_nobody_coordinates_the_next_save_finds_a_slot)
{
	complete_here(6, 1);
	complete_here(7, 2);
	saves_pump(&job.saves);
	cr_expect(stands(6) && stands(7), "the coordinator is there, and will say");
	saves_apart(&job.saves, true);
	saves_pump(&job.saves);
	cr_expect_not(stands(6));
	cr_expect(stands(newest.step), "the last one that is known to be complete on all nodes");
	cr_expect(stands(7), "the newest that is complete here");
	cr_expect_not(saves_lack_slots(&job.saves));
}

Test(reclaim, while_nobody_coordinates_none_gives_way_where_there_is_room)
{
	complete_here(6, 1);
	saves_apart(&job.saves, true);
	saves_pump(&job.saves);
	cr_expect(stands(6) && stands(newest.step));
}

Test(reclaim, what_was_asked_for_on_storage_is_replaced_by_what_is_newer)
{
	complete_here(6, 1)->to_storage = true;
	struct snapshot *last = complete_here(7, 2);
	saves_apart(&job.saves, true);
	saves_pump(&job.saves);
	cr_expect_not(stands(6));
	cr_expect(last->to_storage && last->promoted);
}

Test(reclaim, who_has_each_save_written_in_turn_loses_none)
{
	job.policy.save_policy = SAVE_QUEUE;
	complete_here(6, 1)->to_storage = true;
	complete_here(7, 2);
	saves_apart(&job.saves, true);
	saves_pump(&job.saves);
	cr_expect(stands(6) && stands(7));
}

/* ---- what the next coordinator is told ---------------------------------------------------------------------------- */

Test(reclaim, a_node_says_what_it_has_complete_of_its_epoch_the_newest_first)
{
	struct peer_copied list[PEER_MEMORY];
	complete_here(6, 1);
	complete_here(7, 2);
	cr_assert_eq(saves_list_copied(&job.saves, list, PEER_MEMORY), 3);
	cr_expect(list[0].step == 7 && list[1].step == 6 && list[2].step == newest.step);
	cr_expect(!list[0].captured && !list[1].captured && list[2].captured);
	cr_expect_eq(saves_list_copied(&job.saves, list, 1), 1);
	snapshot_fail(saves_find(&job.saves, (struct step_id){.step = 7, .epoch = job.epoch}), -ECANCELED, "failed");
	cr_expect_eq(saves_list_copied(&job.saves, list, PEER_MEMORY), 2);
	job.epoch++;
	cr_expect_eq(saves_list_copied(&job.saves, list, PEER_MEMORY), 0, "they are of the epoch before");
}
