/* What a slot holds already is not copied again: only if the daemon says that it is intact, and never at the cost of what has changed. */
#include "ranks.h"

#include "base/failpoint.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

/* Of the rank's largest piece: a byte of its last leaf. */
static uint8_t *a_byte(struct ranks *c, uint32_t slot)
{
	const struct layout *layout = fake_layout(c->f, 0);
	const struct layout_piece *largest = &layout->pieces[0];
	for (uint32_t i = 1; i < layout->npieces; i++)
		if (layout->pieces[i].bytes > largest->bytes)
			largest = &layout->pieces[i];
	return fake_slot(c->f, 0, slot) + largest->slot_at + largest->bytes - 1;
}

static bool matches(struct ranks *c, uint32_t slot)
{
	const struct layout *layout = fake_layout(c->f, 0);
	const uint64_t *leaves = fake_leaves(c->f, 0, slot);
	bool same = true;
	for (uint32_t i = 0; i < layout->npieces; i++) {
		const struct layout_piece *p = &layout->pieces[i];
		for (uint64_t l = 0; l < leaf_count(p->bytes); l++) {
			uint64_t at = l * LEAF_SIZE, n = p->bytes - at < LEAF_SIZE ? p->bytes - at : LEAF_SIZE;
			same &= leaves[p->first_leaf + l] == digest_leaf(fake_slot(c->f, 0, slot) + p->slot_at + at, n);
		}
	}
	return same;
}

/* The daemon gives the slot back; whoever captures into it leaves a mark on what he copies. */
static void give_back(struct ranks *c, uint32_t slot, bool intact)
{
	*a_byte(c, slot) ^= 0x40;
	atomic_store(&fake_head(c->f, 0)->slots[slot].intact, intact);
	fake_free(c->f, 0, slot);
}

static uint32_t save_in(struct ranks *c, uint64_t step)
{
	ranks_save(c, step, CKPT_MEMORY);
	uint32_t slot = ranks_slot(c, 0, step);
	cr_assert_eq(atomic_load(&fake_head(c->f, 0)->slots[slot].intact), 0u, "it is the daemon's to say");
	return slot;
}

Test(intact, what_stands_in_an_intact_slot_is_not_copied_again)
{
	struct ranks c;
	ranks_up(&c, 1, NULL);
	ranks_fill(&c, 3);
	uint32_t slot = save_in(&c, 1);
	cr_assert(matches(&c, slot));
	give_back(&c, slot, true);
	cr_assert_eq(save_in(&c, 2), slot);
	cr_assert(!matches(&c, slot), "the mark is gone");
	*a_byte(&c, slot) ^= 0x40;
	cr_assert(matches(&c, slot));
	ranks_down(&c);
}

Test(intact, of_any_other_slot_everything_is_copied)
{
	struct ranks c;
	ranks_up(&c, 1, NULL);
	ranks_fill(&c, 3);
	uint32_t slot = save_in(&c, 1);
	give_back(&c, slot, false);
	cr_assert_eq(save_in(&c, 2), slot);
	cr_assert(matches(&c, slot));
	ranks_down(&c);
}

Test(intact, what_changes_again_is_copied)
{
	struct ranks c;
	ranks_up(&c, 1, NULL);
	ranks_fill(&c, 3);
	uint32_t slot = save_in(&c, 1);
	for (unsigned seed = 4; seed < 8; seed++) {
		give_back(&c, slot, true);
		ranks_fill(&c, seed);
		cr_assert_eq(save_in(&c, seed), slot);
		cr_assert(matches(&c, slot));
	}
	ranks_down(&c);
}

#ifdef CKPT_FAILPOINTS
Test(intact, a_capture_that_fails_leaves_nothing_to_rely_on)
{
	struct ranks c;
	struct err err;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, NULL);
	ranks_fill(&c, 3);
	uint32_t slot = save_in(&c, 1);
	for (int launched = 0; launched < 2; launched++) {
		give_back(&c, slot, true);
		cr_assert_eq(failpoint_arm(launched ? "device.copy=error:EIO@1" : "device.launch=error:EIO@1", &err),
			     0);
		int rc = ckpt_begin(c.s[0], 2 + 2u * launched, CKPT_MEMORY, NULL, &snap);
		if (launched) {
			cr_assert_eq(rc, 0);
			cr_assert_eq(ckpt_fence(snap, NULL), -EIO);
			ckpt_snapshot_free(snap);
		} else {
			cr_assert_eq(rc, -EIO);
		}
		cr_assert_eq(atomic_load(&fake_head(c.f, 0)->slots[slot].intact), 0u);
		fake_free(c.f, 0, slot);
		cr_assert_eq(save_in(&c, 3 + 2u * launched), slot);
		cr_assert(matches(&c, slot));
	}
	ranks_down(&c);
}
#endif
