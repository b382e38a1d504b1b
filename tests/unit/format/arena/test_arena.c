#include "format/arena/arena.h"

#include "format/arena/layout.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(arena, parts_follow_each_other_aligned)
{
	struct arena_plan p;
	cr_assert_eq(arena_plan(1000, 17, 3 * LAYOUT_ALIGN, 3, &p), 0);
	cr_assert_eq(p.table_at, ARENA_HEAD);
	cr_assert_eq(p.leaves_at % LAYOUT_ALIGN, 0);
	cr_assert_geq(p.leaves_at, p.table_at + 1000);
	cr_assert_eq(p.slots_at % ARENA_ALIGN, 0);
	cr_assert_geq(p.slots_at, p.leaves_at + 3 * 17 * 8);
	cr_assert_eq(p.size % ARENA_ALIGN, 0);
	cr_assert_geq(p.size, p.slots_at + 9 * LAYOUT_ALIGN);
}

Test(arena, a_rank_that_holds_nothing_has_an_arena_too)
{
	struct arena_plan p;
	cr_assert_eq(arena_plan(0, 0, 0, 3, &p), 0);
	cr_assert_geq(p.size, ARENA_HEAD);
}

Test(arena, slot_counts_outside_the_bounds_are_refused)
{
	struct arena_plan p;
	cr_assert_eq(arena_plan(1, 1, LAYOUT_ALIGN, 2, &p), -EINVAL);
	cr_assert_eq(arena_plan(1, 1, LAYOUT_ALIGN, 9, &p), -EINVAL);
	cr_assert_eq(arena_plan(1, 1, LAYOUT_ALIGN, 8, &p), 0);
}

Test(arena, sums_that_wrap_are_refused)
{
	struct arena_plan p;
	cr_assert_eq(arena_plan(UINT64_MAX, 0, 0, 3, &p), -EOVERFLOW);
	cr_assert_eq(arena_plan(UINT64_MAX - ARENA_HEAD, 0, 0, 3, &p), -EOVERFLOW);
	cr_assert_eq(arena_plan(0, UINT64_MAX / 24 + 1, 0, 3, &p), -EOVERFLOW);
	cr_assert_eq(arena_plan(0, 0, UINT64_MAX / 3 + 1, 3, &p), -EOVERFLOW);
	cr_assert_eq(arena_plan(0, 0, 1ull << 62, 3, &p), -EOVERFLOW);
	cr_assert_eq(arena_plan(0, 0, UINT64_MAX / 8 / LAYOUT_ALIGN * LAYOUT_ALIGN, 8, &p), -EOVERFLOW);
}

static struct arena_head head(void)
{
	struct arena_head h;
	struct arena_plan p;
	memset(&h, 0, sizeof(h));
	h.magic = ARENA_MAGIC;
	h.version = ARENA_VERSION;
	h.nslots = 3;
	h.table_len = 100;
	h.nleaves = 5;
	h.slot_size = ARENA_ALIGN;
	cr_assert_eq(arena_plan(h.table_len, h.nleaves, h.slot_size, h.nslots, &p), 0);
	h.size = p.size;
	h.table_at = p.table_at;
	h.leaves_at = p.leaves_at;
	h.slots_at = p.slots_at;
	snprintf(h.job, sizeof(h.job), "job");
	h.rank = 1;
	h.world = 2;
	return h;
}

Test(arena, a_sound_head_passes)
{
	struct arena_head h = head();
	struct err err = {0};
	cr_assert_eq(arena_check(&h, h.size, &err), 0, "%s", err.text);
}

#define REFUSED(change)                                                                                                \
	do {                                                                                                           \
		struct arena_head h = head();                                                                          \
		uint64_t size = h.size;                                                                                \
		struct err err = {0};                                                                                  \
		change;                                                                                                \
		cr_assert_eq(arena_check(&h, size, &err), -EBADMSG, "%s", #change);                                    \
		cr_assert(*err.text);                                                                                  \
	} while (0)

Test(arena, a_head_that_contradicts_itself_is_refused)
{
	REFUSED(h.magic ^= 1);
	REFUSED(h.version++);
	REFUSED(h.nslots = 2);
	REFUSED(h.nslots = 9);
	REFUSED(h.nslots = 4);
	REFUSED(h.table_at += 8);
	REFUSED(h.table_len = UINT64_MAX);
	REFUSED(h.leaves_at = UINT64_MAX);
	REFUSED(h.nleaves = UINT64_MAX / 8);
	REFUSED(h.nwitnesses = UINT64_MAX);
	REFUSED(h.nwitnesses = ARENA_ALIGN);
	REFUSED(h.slots_at -= ARENA_ALIGN);
	REFUSED(h.slot_size++);
	REFUSED(h.slot_size = UINT64_MAX / LAYOUT_ALIGN * LAYOUT_ALIGN);
	REFUSED(h.size += ARENA_ALIGN);
	REFUSED(size -= 1);
	REFUSED(size += ARENA_ALIGN);
	REFUSED(h.rank = 2);
	REFUSED(h.world = 0);
	REFUSED(h.world = RANK_MAX + 1);
	REFUSED(snprintf(h.job, sizeof(h.job), "a/b"));
	REFUSED(memset(h.job, 'x', sizeof(h.job)));
}
