#include "libckpt/ranks.h"

#include "client/session/session.h"
#include "format/arena/witness.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads element `global` of a captured tensor out of the slots, whoever captured it. */
static double captured_value(struct ranks *c, const char *name, uint64_t step, uint64_t global)
{
	for (uint32_t r = 0; r < c->world; r++) {
		const struct registration *reg = fake_registration(c->f, r);
		const struct layout *layout = fake_layout(c->f, r);
		for (uint32_t i = 0; i < layout->npieces; i++) {
			const struct layout_piece *p = &layout->pieces[i];
			const struct entry *e = &reg->entries[p->entry];
			struct region one = region_flat(global, 1);
			struct overlap o;
			struct region_run run;
			if (strcmp(e->name, name) != 0)
				continue;
			overlap_init(&o, &e->shape, &p->region, &one);
			if (!overlap_next(&o, &run))
				continue;
			const uint8_t *at = fake_slot(c->f, r, ranks_slot(c, r, step)) + p->slot_at;
			if (e->dtype == DTYPE_F32)
				return ((const float *)at)[run.src];
			return ((const uint16_t *)at)[run.src];
		}
	}
	cr_assert_fail("nobody captured element %lu of %s", (unsigned long)global, name);
	return 0;
}

Test(save, every_kind_of_piece_is_captured_packed)
{
	struct ranks c;
	ranks_up(&c, 2, NULL);
	ranks_fill(&c, 5);
	ranks_save(&c, 120, CKPT_MEMORY);
	for (uint32_t i = 0; i < RANKS_ROWS * RANKS_COLS; i += 97)
		cr_assert_eq(captured_value(&c, "w", 120, i), (float)(i * 3 + 5));
	for (uint32_t i = 0; i < RANKS_FLAT; i++)
		cr_assert_eq(captured_value(&c, "flat", 120, i), (float)(i * 7 + 5));
	for (uint32_t i = 0; i < 2 * RANKS_BOX_ROWS * RANKS_BOX_COLS; i++) {
		uint32_t rank = i / (RANKS_BOX_ROWS * RANKS_BOX_COLS), row = i / RANKS_BOX_COLS % RANKS_BOX_ROWS;
		uint16_t want = (uint16_t)(row * RANKS_BOX_STRIDE + i % RANKS_BOX_COLS + rank * 1000 + 5);
		cr_assert_eq(captured_value(&c, "box", 120, i), want);
	}
	ranks_down(&c);
}

Test(save, source_digests_match_what_stands_in_the_slot)
{
	struct ranks c;
	ranks_up(&c, 2, NULL);
	ranks_fill(&c, 6);
	ranks_save(&c, 7, CKPT_MEMORY);
	for (uint32_t r = 0; r < 2; r++) {
		const struct layout *layout = fake_layout(c.f, r);
		uint32_t slot = ranks_slot(&c, r, 7);
		const uint64_t *leaves = fake_leaves(c.f, r, slot);
		cr_assert_gt(layout->npieces, 0);
		for (uint32_t i = 0; i < layout->npieces; i++) {
			const struct layout_piece *p = &layout->pieces[i];
			uint64_t want[8];
			cr_assert_leq(leaf_count(p->bytes), 8);
			digest_leaves(fake_slot(c.f, r, slot) + p->slot_at, p->bytes, want);
			cr_assert_arr_eq(leaves + p->first_leaf, want, leaf_count(p->bytes) * sizeof(*want));
		}
	}
	ranks_down(&c);
}

/* The sum of what a rank left of its replicas. */
static uint64_t vote_of(struct ranks *c, uint32_t rank, uint64_t step)
{
	struct witnesses w;
	uint64_t sums[8];
	uint32_t slot = ranks_slot(c, rank, step);
	cr_assert_eq(witnesses_make(fake_registration(c->f, rank), fake_layout(c->f, rank), &w), 0);
	cr_assert_eq(w.nsets, 1);
	cr_assert_leq(w.npieces, 8);
	witness_sums(&w, fake_leaves(c->f, rank, slot), sums);
	uint64_t sum = witness_sum(sums, w.npieces);
	witnesses_free(&w);
	return sum;
}

Test(save, replicas_are_witnessed_where_that_is_asked_for)
{
	for (int strict = 0; strict < 2; strict++) {
		struct ranks c;
		ranks_up(&c, 3, &(ckpt_options){.size = sizeof(ckpt_options), .vote = 1, .strict = strict});
		ranks_fill(&c, 6);
		ranks_save(&c, 7, CKPT_MEMORY);
		for (uint32_t r = 0; r < 3; r++) {
			cr_expect(fake_head(c.f, r)->slots[ranks_slot(&c, r, 7)].flags & SLOT_WITNESSES);
			cr_expect_eq(vote_of(&c, r, 7), vote_of(&c, 0, 7));
		}
		uint32_t *word = (uint32_t *)&c.state[1].w[RANKS_ROWS * RANKS_COLS - 1];
		*word ^= 1u << 20;
		ranks_save(&c, 8, CKPT_MEMORY);
		cr_expect_eq(vote_of(&c, 2, 8), vote_of(&c, 0, 8));
		cr_expect_neq(vote_of(&c, 1, 8), vote_of(&c, 0, 8));
		ranks_down(&c);
	}
}

Test(save, it_is_told_in_which_epoch_a_state_began_that_was_not_restored)
{
	struct ranks c;
	ranks_up(&c, 1, NULL);
	ranks_fill(&c, 6);
	ranks_save(&c, 7, CKPT_MEMORY);
	cr_expect_eq(fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 7)].began, ckpt_epoch(c.s[0]));
	ranks_down(&c);
}

Test(save, on_the_host_nothing_is_witnessed_by_default)
{
	struct ranks c;
	ranks_up(&c, 2, NULL);
	ranks_fill(&c, 6);
	ranks_save(&c, 7, CKPT_MEMORY);
	for (uint32_t r = 0; r < 2; r++)
		cr_expect_not(fake_head(c.f, r)->slots[ranks_slot(&c, r, 7)].flags & SLOT_WITNESSES);
	ranks_down(&c);
}

static void *join_refused(void *s)
{
	cr_expect_eq(ckpt_join(s, NULL, 0, NULL, 5000), -E2BIG);
	cr_expect(strstr(ckpt_error(s), "257 groups"), "%s", ckpt_error(s));
	return NULL;
}

/* No part of them is left out. */
Test(save, more_replicas_than_can_be_compared_are_refused)
{
	struct ranks c;
	uint64_t shape[] = {1};
	float value = 1;
	pthread_t threads[2];
	ranks_open(&c, 2, &(ckpt_options){.size = sizeof(ckpt_options), .vote = 1});
	for (uint32_t i = 0; i < 2 * (WITNESS_SETS_MAX + 1); i++) {
		char name[16];
		snprintf(name, sizeof(name), "t%u", i / 2);
		ckpt_tensor t = {.size = sizeof(t),
				 .name = name,
				 .dtype = CKPT_F32,
				 .ndim = 1,
				 .shape = shape,
				 .npieces = 1,
				 .pieces = &(ckpt_piece){.data = &value},
				 .replica = name,
				 .device = CKPT_HOST};
		cr_assert_eq(ckpt_register_tensor(c.s[i % 2], &t), 0, "%s", ckpt_error(c.s[i % 2]));
	}
	for (uint32_t r = 0; r < 2; r++)
		cr_assert_eq(pthread_create(&threads[r], NULL, join_refused, c.s[r]), 0);
	for (uint32_t r = 0; r < 2; r++)
		pthread_join(threads[r], NULL);
	ranks_down(&c);
}

Test(save, the_slot_tells_the_daemon_everything)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 33, CKPT_STORAGE, NULL, &snap), 0);
	cr_assert(fake_rang(c.f));
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 33)];
	cr_assert_eq(slot->epoch, 1);
	cr_assert_eq(slot->target, SLOT_STORAGE);
	cr_assert_eq(slot->flags, 0);
	cr_assert_gt(slot->begin_ns, 0);
	cr_assert_eq(slot->fenced, 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	cr_assert(fake_rang(c.f));
	cr_assert_eq(slot->fenced, 1);
	cr_assert_eq(slot->done, 1);
	cr_assert_eq(slot->progress, fake_layout(c.f, 0)->data_bytes);
	cr_assert_eq(ckpt_fence(snap, NULL), 0, "a second fence changes nothing");
	cr_assert_eq(ckpt_snapshot_step(snap), 33);
	ckpt_snapshot_free(snap);
	fake_publish(c.f, &(struct fake_level){.id = {33, 1}, .level = LEVEL_DURABLE});
	ranks_down(&c);
}

Test(save, a_snapshot_that_was_never_fenced_is_given_up_by_the_next)
{
	struct ranks c;
	ckpt_snapshot *first, *second;
	ranks_up(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &first), 0);
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 1)];
	cr_assert_eq(ckpt_begin(c.s[0], 2, CKPT_MEMORY, NULL, &second), 0);
	cr_assert_eq(slot->fenced, 2);
	cr_assert_eq(ckpt_fence(first, NULL), -ECANCELED);
	cr_assert(strstr(ckpt_error(c.s[0]), "step 1:"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(second, NULL), 0);
	ckpt_snapshot_free(first);
	ckpt_snapshot_free(second);
	ranks_down(&c);
}

Test(save, freeing_an_unfenced_snapshot_gives_it_up)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &snap), 0);
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 1)];
	ckpt_snapshot_free(snap);
	cr_assert_eq(slot->fenced, 2);
	cr_assert_eq(ckpt_begin(c.s[0], 2, CKPT_MEMORY, NULL, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	slot = &fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 2)];
	ckpt_snapshot_free(snap);
	cr_assert_eq(slot->fenced, 1, "a fenced one goes its way");
	ranks_down(&c);
}

Test(save, full_slots_are_busy_and_say_by_whom)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, NULL);
	ranks_save(&c, 100, CKPT_MEMORY);
	ranks_save(&c, 110, CKPT_MEMORY);
	ranks_save(&c, 120, CKPT_MEMORY);
	fake_publish(c.f, &(struct fake_level){.id = {110, 1}, .level = LEVEL_CAPTURED});
	cr_assert_eq(ckpt_begin(c.s[0], 130, CKPT_MEMORY, NULL, &snap), -EBUSY);
	cr_assert_null(snap);
	cr_assert(strstr(ckpt_error(c.s[0]), "step 100 (not seen"), "%s", ckpt_error(c.s[0]));
	cr_assert(strstr(ckpt_error(c.s[0]), "step 110 (captured)"), "%s", ckpt_error(c.s[0]));
	struct step_id left_out = arena_left_out(fake_head(c.f, 0));
	cr_expect(left_out.step == 130 && left_out.epoch == 1, "the daemon is not told");
	fake_free(c.f, 0, ranks_slot(&c, 0, 110));
	ranks_save(&c, 130, CKPT_MEMORY);
	cr_expect_eq(arena_left_out(fake_head(c.f, 0)).epoch, 0, "it has been begun all the same");
	ranks_down(&c);
}

Test(save, a_slot_can_be_waited_for)
{
	struct ranks c;
	ranks_up(&c, 1, NULL);
	cr_expect_eq(ckpt_wait_slot(c.s[0], 0), 0);
	for (uint64_t step = 100; step < 103; step++)
		ranks_save(&c, step, CKPT_MEMORY);
	cr_expect_eq(ckpt_wait_slot(c.s[0], 20), -ETIMEDOUT);
	cr_expect(strstr(ckpt_error(c.s[0]), "step 101 (not seen"), "%s", ckpt_error(c.s[0]));
	cr_expect_eq(arena_left_out(fake_head(c.f, 0)).epoch, 0, "nothing is left out");
	fake_free(c.f, 0, ranks_slot(&c, 0, 101));
	cr_expect_eq(ckpt_wait_slot(c.s[0], 20000), 0);
	fake_epoch(c.f, 2, "rank 0 was replaced");
	cr_expect_eq(ckpt_wait_slot(c.s[0], 0), -ESTALE);
	ranks_down(&c);
}

Test(save, a_step_is_saved_once_per_epoch)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, NULL);
	ranks_save(&c, 5, CKPT_MEMORY);
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, NULL, &snap), -EALREADY);
	fake_free(c.f, 0, ranks_slot(&c, 0, 5));
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, NULL, &snap), -EALREADY, "also when its slot is free again");
	fake_publish(c.f, &(struct fake_level){.id = {6, 1}, .level = LEVEL_CAPTURED});
	cr_assert_eq(ckpt_begin(c.s[0], 6, CKPT_MEMORY, NULL, &snap), -EALREADY, "by a predecessor of this process");
	fake_epoch(c.f, 2, "rank 0 was replaced");
	ranks_join(&c);
	ranks_save(&c, 5, CKPT_MEMORY);
	ranks_down(&c);
}

Test(save, a_step_that_only_another_rank_has_begun_is_not_saved_yet)
{
	struct ranks c;
	ranks_up(&c, 2, NULL);
	fake_publish(c.f, &(struct fake_level){.id = {5, 1}, .late_rank = 0, .late_phase = LATE_BEGIN});
	ranks_save(&c, 5, CKPT_MEMORY);
	ranks_down(&c);
}

Test(save, a_new_epoch_stops_begin_and_fence)
{
	struct ranks c;
	ckpt_snapshot *snap, *none;
	ranks_up(&c, 2, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 9, CKPT_MEMORY, NULL, &snap), 0);
	fake_epoch_quietly(c.f, 2);
	cr_assert_eq(ckpt_fence(snap, NULL), -ESTALE);
	cr_assert_eq(ckpt_poll(snap), -ESTALE);
	cr_assert_eq(ckpt_begin(c.s[1], 9, CKPT_MEMORY, NULL, &none), -ESTALE);
	cr_assert(strstr(ckpt_error(c.s[1]), "epoch 2"), "%s", ckpt_error(c.s[1]));
	ckpt_snapshot_free(snap);
	ranks_join(&c);
	cr_assert_eq(ckpt_epoch(c.s[0]), 2);
	ranks_save(&c, 9, CKPT_MEMORY);
	ranks_down(&c);
}

Test(save, arguments_are_checked)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_open(&c, 1, NULL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &snap), -EINVAL);
	cr_assert(strstr(ckpt_error(c.s[0]), "ckpt_join"), "%s", ckpt_error(c.s[0]));
	ranks_register(&c);
	ranks_join(&c);
	cr_assert_eq(ckpt_begin(c.s[0], STEP_MAX + 1, CKPT_MEMORY, NULL, &snap), -EINVAL);
	cr_assert_eq(ckpt_begin(c.s[0], 1, (ckpt_target)7, NULL, &snap), -EINVAL);
	ranks_down(&c);
}

Test(save, a_daemon_without_a_store_refuses_storage)
{
	struct ranks c = {.f = fake_start(1), .world = 1};
	ckpt_snapshot *snap;
	ckpt_options o = {.size = sizeof(o), .socket = fake_socket(c.f), .world = 1, .timeout_ms = 5000};
	fake_manners(c.f, &(struct fake_manners){.no_storage = true});
	cr_assert_eq(ckpt_open(&o, &c.s[0], NULL, 0), 0);
	ranks_register(&c);
	ranks_join(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_STORAGE, NULL, &snap), -EINVAL);
	cr_assert(strstr(ckpt_error(c.s[0]), "no store"), "%s", ckpt_error(c.s[0]));
	ranks_save(&c, 1, CKPT_MEMORY);
	ranks_down(&c);
}

Test(save, a_rank_that_captures_nothing_is_complete_at_once)
{
	struct ranks c;
	uint8_t nothing = 0;
	ranks_open(&c, 2, NULL);
	/* One byte that all hold: rank 0 captures it. */
	for (int r = 0; r < 2; r++)
		cr_assert_eq(ckpt_register_blob(c.s[r], "b", CKPT_SCOPE_JOB, &nothing, 1), 0);
	ranks_join(&c);
	ranks_save(&c, 3, CKPT_MEMORY);
	cr_assert_eq(fake_layout(c.f, 0)->npieces + fake_layout(c.f, 1)->npieces, 1);
	for (uint32_t r = 0; r < 2; r++)
		cr_assert_eq(fake_head(c.f, r)->slots[ranks_slot(&c, r, 3)].done, 1);
	ranks_down(&c);
}

/* ---- strict mode ------------------------------------------------------------------------------------------------- */

Test(save, strict_mode_passes_state_that_stands_still)
{
	struct ranks c;
	ranks_up(&c, 1, &(ckpt_options){.size = sizeof(ckpt_options), .strict = 1});
	ranks_fill(&c, 3);
	for (uint64_t step = 1; step <= 3; step++)
		ranks_save(&c, step, CKPT_MEMORY);
	ranks_down(&c);
}
