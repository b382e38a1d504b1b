/* The ring of levels holds the last snapshots only: what a wait makes of one that is no longer shown. */
#include "ranks.h"

#include <criterion/criterion.h>
#include <string.h>

static ckpt_snapshot *begun(struct ranks *c, uint64_t step, ckpt_target target)
{
	ckpt_snapshot *snap;
	ranks_up(c, 1, &(ckpt_options){.size = sizeof(ckpt_options), .timeout_ms = 1000});
	cr_assert_eq(ckpt_begin(c->s[0], step, target, NULL, &snap), 0, "%s", ckpt_error(c->s[0]));
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	return snap;
}

static void publish(struct ranks *c, uint64_t step, int level, int error)
{
	fake_publish(c->f, &(struct fake_level){.id = {step, 1}, .level = level, .error = error});
}

/* So many are saved in epoch 2. */
static void save_others(struct ranks *c, uint64_t from, unsigned n)
{
	for (uint64_t step = from; step < from + n; step++)
		fake_publish(c->f, &(struct fake_level){.id = {step, 2}, .level = LEVEL_CAPTURED});
}

static void next_epoch(struct ranks *c)
{
	fake_epoch(c->f, 2, "rank 0 died");
	ranks_join(c);
}

/* Step 120 of epoch 1, in the next one; the ring is full of those that were saved since. */
static ckpt_snapshot *outrun(struct ranks *c)
{
	ckpt_snapshot *snap = begun(c, 120, CKPT_STORAGE);
	publish(c, 120, LEVEL_CAPTURED, 0);
	cr_assert_eq(ckpt_poll(snap), CKPT_CAPTURED);
	next_epoch(c);
	save_others(c, 200, ARENA_STATUS);
	return snap;
}

Test(ring, an_older_save_that_it_no_longer_holds_is_on_its_way_while_it_has_its_slot)
{
	struct ranks c;
	ckpt_snapshot *snap = outrun(&c);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 20), -ETIMEDOUT);
	cr_assert_eq(ckpt_poll(snap), CKPT_CAPTURED);
	fake_free(c.f, 0, 0);
	cr_assert_eq(ckpt_poll(snap), -ECANCELED, "who only polls would look for ever");
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 5000), -ECANCELED);
	cr_assert(strstr(ckpt_error(c.s[0]), "no longer kept"), "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	cr_assert_eq(ckpt_close(c.s[0]), 0);
	c.s[0] = NULL;
	ranks_down(&c);
}

Test(ring, so_it_is_when_an_earlier_save_took_a_place_at_its_end)
{
	struct ranks c;
	ckpt_snapshot *snap = outrun(&c);
	publish(&c, 100, LEVEL_VERIFIED, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 20), -ETIMEDOUT, "%s", ckpt_error(c.s[0]));
	publish(&c, 120, LEVEL_DURABLE, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 5000), 0, "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(ring, and_close_waits_for_it)
{
	struct ranks c;
	ckpt_snapshot_free(outrun(&c));
	publish(&c, 100, LEVEL_VERIFIED, 0);
	cr_assert_eq(ckpt_close(c.s[0]), -ETIMEDOUT, "it is not durable yet");
	c.s[0] = NULL;
	ranks_down(&c);
}

/* The disk is slow: it is no longer shown when its end comes. */
Test(ring, an_end_that_comes_late_stays_for_as_many_saves_as_any_other)
{
	struct ranks c;
	ckpt_snapshot *snap = outrun(&c);
	fake_free(c.f, 0, 0);
	fake_publish(c.f, &(struct fake_level){.id = {120, 1}, .level = LEVEL_DURABLE});
	save_others(&c, 300, ARENA_STATUS - 1);
	cr_expect_eq(ckpt_poll(snap), CKPT_DURABLE, "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(ring, one_that_the_daemon_has_not_seen_is_stale_as_long_as_that_can_be_known)
{
	struct ranks c;
	for (int known = 1; known >= 0; known--) {
		ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
		next_epoch(&c);
		fake_free(c.f, 0, 0);
		save_others(&c, 200, ARENA_STATUS - (unsigned)known);
		cr_expect_eq(ckpt_wait(snap, CKPT_DURABLE, 5000), known ? -ESTALE : -ECANCELED, "%s",
			     ckpt_error(c.s[0]));
		ckpt_snapshot_free(snap);
		ranks_down(&c);
	}
}

/* It keeps its place, however many are saved after it. */
Test(ring, an_earlier_save_that_is_being_written_does_not_show_that_one_was_never_seen)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, &(ckpt_options){.size = sizeof(ckpt_options), .timeout_ms = 1000});
	fake_publish(c.f, &(struct fake_level){.id = {100, 1}, .level = LEVEL_CAPTURED, .late_phase = LATE_WRITE});
	cr_assert_eq(ckpt_begin(c.s[0], 120, CKPT_STORAGE, NULL, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	publish(&c, 120, LEVEL_CAPTURED, 0);
	next_epoch(&c);
	save_others(&c, 200, ARENA_STATUS);
	fake_free(c.f, 0, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 5000), -ECANCELED);
	cr_assert(strstr(ckpt_error(c.s[0]), "no longer kept"), "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(ring, an_entry_that_its_writer_left_half_written_is_not_read)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_MEMORY);
	publish(&c, 120, LEVEL_CAPTURED, 0);
	atomic_fetch_add(&fake_head(c.f, 0)->status[0].seq, 1);
	cr_assert_eq(ckpt_poll(snap), CKPT_PENDING);
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 20), -ETIMEDOUT);
	atomic_fetch_add(&fake_head(c.f, 0)->status[0].seq, 1);
	cr_assert_eq(ckpt_poll(snap), CKPT_CAPTURED);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

/* The daemon is stopped, or killed, while it shows more of the step. */
static struct arena_status *half_written(struct ranks *c, uint64_t step)
{
	struct arena_status *entry = fake_head(c->f, 0)->status;
	while (entry->step != step)
		entry++;
	atomic_fetch_add(&entry->seq, 1);
	return entry;
}

Test(ring, nothing_is_said_to_be_lost_while_an_entry_is_half_written)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	publish(&c, 120, LEVEL_DURABLE, 0);
	for (uint64_t step = 121; step < 120 + ARENA_STATUS; step++)
		publish(&c, step, LEVEL_CAPTURED, 0);
	fake_free(c.f, 0, 0);
	struct arena_status *entry = half_written(&c, 120);
	cr_expect_eq(ckpt_wait(snap, CKPT_DURABLE, 20), -ETIMEDOUT, "%s", ckpt_error(c.s[0]));
	fake_epoch(c.f, 2, "rank 0 died");
	ranks_join(&c);
	cr_expect_eq(ckpt_wait(snap, CKPT_DURABLE, 20), -ETIMEDOUT, "%s", ckpt_error(c.s[0]));
	atomic_fetch_add(&entry->seq, 1);
	cr_expect_eq(ckpt_wait(snap, CKPT_DURABLE, 20), 0, "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(ring, an_outcome_that_the_ring_no_longer_holds_is_said_to_be_lost)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_MEMORY);
	fake_free(c.f, 0, 0);
	for (uint64_t step = 121; step < 121 + ARENA_STATUS; step++)
		publish(&c, step, LEVEL_CAPTURED, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 5000), -ECANCELED);
	cr_assert(strstr(ckpt_error(c.s[0]), "no longer kept"), "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(ring, an_outcome_whose_place_an_earlier_save_took_at_its_end_is_said_to_be_lost)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	fake_free(c.f, 0, 0);
	for (uint64_t step = 121; step < 121 + ARENA_STATUS; step++)
		publish(&c, step, LEVEL_CAPTURED, 0);
	publish(&c, 100, LEVEL_DURABLE, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 20000), -ECANCELED);
	cr_assert(strstr(ckpt_error(c.s[0]), "no longer kept"), "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}
