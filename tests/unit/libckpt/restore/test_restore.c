#include "base/clock.h"
#include "client/session/session.h"
#include "libckpt/ranks.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Everything was saved with seed 1 into slot 0 of every rank, then changed. */
static void saved_ranks(struct ranks *c, uint32_t world)
{
	ranks_up(c, world, NULL);
	ranks_fill(c, 1);
	ranks_save(c, 50, CKPT_MEMORY);
	ranks_fill(c, 2);
	fake_manners(
		c->f,
		&(struct fake_manners){
			.restored = {.step = 50, .epoch = 1, .source = WIRE_FROM_MEMORY, .fetch_ns = 77, .why = "x"}});
}

Test(restore, each_rank_gathers_its_state_from_all_arenas)
{
	struct ranks c;
	ckpt_restored out[4];
	int rc[4];
	saved_ranks(&c, 4);
	/* w is split: no rank has all of it in its own arena. */
	for (uint32_t r = 0; r < 4; r++)
		cr_assert_lt(fake_layout(c.f, r)->data_bytes, RANKS_ROWS * RANKS_COLS * sizeof(float));
	ranks_restore(&c, 50, rc, out);
	for (uint32_t r = 0; r < 4; r++) {
		cr_assert_eq(rc[r], 0);
		cr_assert_eq(out[r].step, 50);
		cr_assert_eq(out[r].epoch, 1);
		cr_assert_eq(out[r].source, CKPT_FROM_MEMORY);
		cr_assert_eq(out[r].fetch_ns, 77);
		cr_assert_eq(out[r].bytes, RANKS_ROWS * RANKS_COLS * 4 + c.state[r].flat_count * 4 +
						   RANKS_BOX_ROWS * RANKS_BOX_COLS * 2 + 16 + 24);
		cr_assert_str_eq(out[r].why, "x");
	}
	cr_assert(ranks_is(&c, 1));
	ranks_down(&c);
}

Test(restore, what_memory_alone_has_goes_on_with_the_run_that_brought_it_there)
{
	for (uint32_t said = 0; said < 3; said++) {
		struct ranks c;
		int rc[2];
		saved_ranks(&c, 2);
		fake_head(c.f, 0)->slots[0].began = 0;
		fake_head(c.f, 1)->slots[0].began =
			said; /* 0: it came from storage; 2: behind the snapshot's own epoch */
		ranks_restore(&c, 50, rc, NULL);
		ranks_save(&c, 60, CKPT_MEMORY);
		for (uint32_t r = 0; r < 2; r++) {
			cr_assert_eq(rc[r], 0);
			cr_expect_eq(fake_head(c.f, r)->slots[ranks_slot(&c, r, 60)].began, said == 1, "said %u", said);
		}
		ranks_down(&c);
	}
}

Test(restore, the_arena_tells_the_epoch_when_it_is_done_and_the_first_step_after_it)
{
	struct ranks c;
	int rc[1];
	saved_ranks(&c, 1);
	struct arena_entry *entry = &fake_head(c.f, 0)->entry;
	cr_assert_eq(entry->joined, ckpt_epoch(c.s[0]));
	cr_assert_neq(entry->joined, 0);
	ckpt_beat(c.s[0], 60, CKPT_PHASE_FORWARD);
	cr_assert_eq(entry->stepped_ns, 0, "nothing was restored");
	uint64_t before = clock_now();
	ranks_restore(&c, 50, rc, NULL);
	cr_assert_eq(rc[0], 0);
	uint64_t loaded = entry->loaded_ns;
	cr_assert(loaded >= before && loaded <= clock_now());
	ckpt_beat(c.s[0], 50, CKPT_PHASE_FORWARD);
	cr_assert_eq(entry->stepped_ns, 0, "it is in that step");
	ckpt_beat(c.s[0], 51, CKPT_PHASE_FORWARD);
	uint64_t stepped = entry->stepped_ns;
	cr_assert(stepped >= loaded && stepped <= clock_now());
	ckpt_beat(c.s[0], 52, CKPT_PHASE_FORWARD);
	cr_assert_eq(entry->stepped_ns, stepped, "the first one counts");
	ranks_restore(&c, 50, rc, NULL);
	cr_assert_gt(entry->loaded_ns, stepped);
	ckpt_beat(c.s[0], 51, CKPT_PHASE_FORWARD);
	cr_assert_geq(entry->stepped_ns, entry->loaded_ns);
	ranks_down(&c);
}

Test(restore, memory_between_the_rows_of_a_strided_piece_is_left_alone)
{
	struct ranks c;
	int rc[2];
	saved_ranks(&c, 2);
	c.state[0].box[RANKS_BOX_COLS] = 4711;
	ranks_restore(&c, CKPT_LATEST, rc, NULL);
	cr_assert_eq(rc[0], 0);
	cr_assert_eq(c.state[0].box[RANKS_BOX_COLS], 4711);
	ranks_down(&c);
}

static const struct layout_piece *captured(struct ranks *c, uint32_t rank, const char *name)
{
	const struct layout *layout = fake_layout(c->f, rank);
	for (uint32_t i = 0; i < layout->npieces; i++)
		if (!strcmp(fake_registration(c->f, rank)->entries[layout->pieces[i].entry].name, name))
			return &layout->pieces[i];
	cr_assert_fail("rank %u captured nothing of %s", rank, name);
	return NULL;
}

Test(restore, damage_in_any_arena_is_found_and_refuses_saves_until_a_restore_succeeds)
{
	struct ranks c;
	ckpt_snapshot *snap;
	int rc[2];
	saved_ranks(&c, 2);
	/* Rank 1's part of w, which both ranks take from there. */
	uint8_t *at = fake_slot(c.f, 1, 0) + captured(&c, 1, "w")->slot_at;
	at[5] ^= 1;
	ranks_restore(&c, 50, rc, NULL);
	cr_assert_eq(rc[0], -EBADMSG);
	cr_assert_eq(rc[1], -EBADMSG);
	cr_assert_eq(ckpt_begin(c.s[0], 60, CKPT_MEMORY, NULL, &snap), -EPERM);
	at[5] ^= 1;
	ranks_restore(&c, 50, rc, NULL);
	cr_assert_eq(rc[0], 0);
	cr_assert_eq(rc[1], 0);
	cr_assert(ranks_is(&c, 1));
	ranks_save(&c, 60, CKPT_MEMORY);
	ranks_down(&c);
}

/* What becomes of rank 1's slot: when it is looked at first, or right after the copy. */
struct reuse {
	struct arena_slot *slot;
	void (*change)(struct arena_slot *slot);
	struct device_ops ops;
};
static struct reuse reuse;

static void taken_by_another_step(struct arena_slot *slot)
{
	slot->step = 60;
}

static void taken_in_another_epoch(struct arena_slot *slot)
{
	slot->epoch = 2;
}

static void given_back(struct arena_slot *slot)
{
	atomic_store(&slot->state, SLOT_FREE);
}

static void taken_for_the_same_step(struct arena_slot *slot)
{
	atomic_store(&slot->fenced, 0);
}

static void still_copied_into(struct arena_slot *slot)
{
	atomic_store(&slot->done, 0);
}

static int copy_then_change(struct device *dev, const void *base, const struct span *spans, size_t n,
			    const uint64_t *leaves, void *stream, uint64_t *bad_leaf, struct err *err)
{
	int rc = device_host.restore(dev, base, spans, n, leaves, stream, bad_leaf, err);
	reuse.change(reuse.slot);
	return rc;
}

static void assert_reuse_is_found(struct ranks *c)
{
	int rc[2];
	ckpt_snapshot *snap;
	ranks_restore(c, 50, rc, NULL);
	cr_assert_eq(rc[0], -EBADMSG);
	cr_assert_eq(ckpt_begin(c->s[0], 70, CKPT_MEMORY, NULL, &snap), -EPERM);
}

static void reuse_slot_of_rank_1(void (*change)(struct arena_slot *slot), bool during_the_copy)
{
	struct ranks c;
	int rc[2];
	saved_ranks(&c, 2);
	reuse = (struct reuse){.slot = &fake_head(c.f, 1)->slots[0], .change = change, .ops = device_host};
	const struct arena_slot as_saved = *reuse.slot;
	if (during_the_copy) {
		reuse.ops.restore = copy_then_change;
		c.s[0]->stage->capture.devices[0].ops = &reuse.ops;
	} else {
		change(reuse.slot);
	}
	assert_reuse_is_found(&c);
	c.s[0]->stage->capture.devices[0].ops = &device_host;
	*reuse.slot = as_saved;
	ranks_restore(&c, 50, rc, NULL);
	cr_assert_eq(rc[0], 0);
	cr_assert(ranks_is(&c, 1));
	ranks_save(&c, 70, CKPT_MEMORY);
	ranks_down(&c);
}

Test(restore, a_slot_that_was_given_away_before_the_copy_refuses_saves_until_a_restore_succeeds)
{
	reuse_slot_of_rank_1(taken_by_another_step, false);
	reuse_slot_of_rank_1(taken_in_another_epoch, false);
	reuse_slot_of_rank_1(given_back, false);
	reuse_slot_of_rank_1(taken_for_the_same_step, false);
	reuse_slot_of_rank_1(still_copied_into, false);
}

Test(restore, a_slot_that_is_given_away_under_the_copy_refuses_saves_until_a_restore_succeeds)
{
	reuse_slot_of_rank_1(taken_by_another_step, true);
	reuse_slot_of_rank_1(taken_in_another_epoch, true);
	reuse_slot_of_rank_1(given_back, true);
	reuse_slot_of_rank_1(taken_for_the_same_step, true);
	reuse_slot_of_rank_1(still_copied_into, true);
}

Test(restore, the_sentence_says_that_the_slot_was_given_away)
{
	struct ranks c;
	saved_ranks(&c, 1);
	taken_by_another_step(&fake_head(c.f, 0)->slots[0]);
	cr_assert_eq(ckpt_restore(c.s[0], 50, NULL, NULL, -1), -EBADMSG);
	cr_assert_str_eq(ckpt_error(c.s[0]),
			 "step 50: arena of rank 0: the slot was given to another save while it was restored");
	cr_assert(ranks_is(&c, 2), "nothing was copied");
	ranks_down(&c);
}

Test(restore, the_sentence_names_tensor_and_bytes)
{
	struct ranks c;
	saved_ranks(&c, 1);
	fake_slot(c.f, 0, 0)[captured(&c, 0, "w")->slot_at + 2 * LEAF_SIZE] ^= 1;
	cr_assert_eq(ckpt_restore(c.s[0], 50, NULL, NULL, -1), -EBADMSG);
	cr_assert(strstr(ckpt_error(c.s[0]), "tensor w"), "%s", ckpt_error(c.s[0]));
	cr_assert(strstr(ckpt_error(c.s[0]), "bytes 131072 to 196608"), "%s", ckpt_error(c.s[0]));
	cr_assert(strstr(ckpt_error(c.s[0]), "step 50"), "%s", ckpt_error(c.s[0]));
	ranks_down(&c);
}

Test(restore, rank_blobs_that_were_never_saved_keep_what_they_have)
{
	struct ranks c;
	int rc[2];
	saved_ranks(&c, 2);
	struct fake_manners m = {.restored = {.step = 50,
					      .epoch = 1,
					      .source = WIRE_FROM_STORAGE,
					      .nlocal = 2,
					      .ranks = {0, 1},
					      .rank_blobs_absent = {false, true}}};
	fake_manners(c.f, &m);
	uint8_t kept = c.state[1].rng[3];
	ranks_restore(&c, 50, rc, NULL);
	cr_assert_eq(rc[0], 0);
	cr_assert_eq(rc[1], 0);
	cr_assert_eq(c.state[1].rng[3], kept);
	cr_assert_neq(c.state[0].rng[3], (uint8_t)(3 + 2), "rank 0's was restored");
	cr_assert_eq(c.state[1].clock[0], 1);
	ranks_down(&c);
}

Test(restore, what_the_daemon_refuses_touches_nothing)
{
	struct ranks c;
	ckpt_snapshot *snap;
	saved_ranks(&c, 1);
	fake_manners(c.f, &(struct fake_manners){.restore = {.rc = -ENOENT, .text = "job ranks has no checkpoint"}});
	cr_assert_eq(ckpt_restore(c.s[0], CKPT_LATEST, NULL, NULL, -1), -ENOENT);
	cr_assert_str_eq(ckpt_error(c.s[0]), "job ranks has no checkpoint");
	cr_assert(ranks_is(&c, 2));
	cr_assert_eq(ckpt_begin(c.s[0], 60, CKPT_MEMORY, NULL, &snap), 0);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

/* As of a request before, which this rank has given up waiting for. */
Test(restore, an_answer_about_another_step_is_refused)
{
	struct ranks c;
	int rc[2];
	saved_ranks(&c, 2);
	ranks_restore(&c, 40, rc, NULL);
	cr_assert(rc[0] == -EBADMSG && rc[1] == -EBADMSG);
	cr_assert(ranks_is(&c, 2), "nothing of it was loaded");
	cr_assert_eq(ckpt_restore(c.s[0], 40, NULL, NULL, 0), -ETIMEDOUT, "alone it waits for the other one");
	ranks_down(&c);
}

Test(restore, a_slot_that_is_not_there_is_refused)
{
	struct ranks c;
	saved_ranks(&c, 1);
	fake_manners(c.f, &(struct fake_manners){.restored = {.step = 50, .epoch = 1, .source = 1, .slots = {5}}});
	cr_assert_eq(ckpt_restore(c.s[0], 50, NULL, NULL, -1), -EBADMSG);
	cr_assert(ranks_is(&c, 2));
	ranks_down(&c);
}

Test(restore, a_daemon_that_does_not_answer_costs_the_deadline)
{
	struct ranks c;
	saved_ranks(&c, 1);
	fake_manners(c.f, &(struct fake_manners){.silent = true});
	cr_assert_eq(ckpt_restore(c.s[0], 50, NULL, NULL, 30), -ETIMEDOUT);
	cr_assert(strstr(ckpt_error(c.s[0]), "30 ms"), "%s", ckpt_error(c.s[0]));
	ranks_down(&c);
}

Test(restore, arguments_are_checked)
{
	struct ranks c;
	ckpt_restored out = {.size = 3};
	ranks_open(&c, 1, NULL);
	cr_assert_eq(ckpt_restore(c.s[0], 1, NULL, NULL, -1), -EINVAL, "before ckpt_join");
	ranks_register(&c);
	ranks_join(&c);
	cr_assert_eq(ckpt_restore(c.s[0], STEP_MAX + 1, NULL, NULL, -1), -EINVAL);
	cr_assert_eq(ckpt_restore(c.s[0], 1, NULL, &out, -1), -EINVAL);
	fake_epoch_quietly(c.f, 2);
	cr_assert_eq(ckpt_restore(c.s[0], 1, NULL, NULL, -1), -ESTALE);
	ranks_down(&c);
}
