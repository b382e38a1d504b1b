#include "base/bytes.h"
#include "ckptd/job_maker.h"

#include <criterion/criterion.h>

static struct maker m;
static const struct step_id id = {.step = 7, .epoch = 2};

static void setup(void)
{
	maker_new(&m, (struct step_id){.step = 5, .epoch = 1});
}

static void teardown(void)
{
	maker_free(&m);
}

TestSuite(memory_bring, .init = setup, .fini = teardown);

/* So that a few leaves make several granules. */
static struct arena_bring *begin(uint32_t slot, uint64_t nleaves)
{
	struct memory *mem = m.mem[0];
	uint64_t was = mem->layout.nleaves;
	mem->layout.nleaves = nleaves;
	memory_bring(mem, slot, id);
	mem->layout.nleaves = was;
	return &mem->head->bring;
}

Test(memory_bring, tells_slot_and_step_and_a_granule_when_its_last_leaf_is_there)
{
	struct arena_bring *b = begin(1, 600);
	cr_expect_eq(b->turn % 2, 1);
	cr_expect_eq(b->slot, 1);
	cr_expect_eq(b->step, 7);
	cr_expect_eq(b->epoch, 2);
	cr_expect_eq(b->no_blobs, 0);
	cr_expect_not(memory_brought(m.mem[0], 0, 255));
	cr_expect_not(memory_brought(m.mem[0], 256, 10));
	cr_expect_eq(b->there[0], 0);
	cr_expect(memory_brought(m.mem[0], 255, 1));
	cr_expect_eq(b->there[0], 1);
	cr_expect(memory_brought(m.mem[0], 266, 600 - 266), "the rest of two");
	cr_expect_eq(b->there[0], 7);
}

Test(memory_bring, a_large_slot_has_larger_granules)
{
	uint64_t nleaves = 3 * ARENA_GRANULES * ARENA_GRANULE_LEAVES + 1, each = arena_granule(nleaves);
	struct arena_bring *b = begin(1, nleaves);
	cr_expect_gt(each, 3 * ARENA_GRANULE_LEAVES);
	cr_expect_leq(div_up(nleaves, each), ARENA_GRANULES);
	cr_expect(memory_brought(m.mem[0], 0, nleaves));
	cr_expect_eq(b->there[div_up(nleaves, each) / 64 - 1], UINT64_MAX);
}

Test(memory_bring, each_attempt_has_a_turn_of_its_own_and_nothing_there)
{
	struct arena_bring *b = begin(1, 600);
	uint32_t first = b->turn;
	memory_bring_no_blobs(m.mem[0]);
	memory_brought(m.mem[0], 0, 600);
	begin(2, 600);
	cr_expect_eq(b->turn, first + 2);
	cr_expect_eq(b->there[0], 0);
	cr_expect_eq(b->no_blobs, 0);
	memory_bring_end(m.mem[0]);
	cr_expect_eq(b->turn, first + 3);
	memory_bring_end(m.mem[0]);
	cr_expect_eq(b->turn, first + 3, "it is over already");
}

Test(memory_bring, ends_with_its_slot)
{
	struct memory *mem = m.mem[0];
	cr_assert_eq(memory_claim(mem, id), 1);
	cr_assert_eq(memory_claim(mem, id), 2);
	struct arena_bring *b = begin(1, 600);
	memory_release(mem, 2, false);
	cr_expect_eq(b->turn % 2, 1);
	memory_release(mem, 1, false);
	cr_expect_eq(b->turn % 2, 0);
}

Test(memory_bring, what_a_rank_has_scribbled_there_changes_nothing)
{
	struct arena_bring *b = begin(1, 600);
	b->turn = 8;
	memory_bring_end(m.mem[0]);
	cr_expect_eq(b->turn % 2, 0);
	cr_expect_neq(b->turn, 8);
	begin(2, 600);
	cr_expect_eq(b->turn % 2, 1);
}

Test(memory_bring, leaves_within_bytes_of_a_slot)
{
	const struct memory *mem = m.mem[0];
	const struct layout *layout = &mem->layout;
	cr_assert_geq(layout->npieces, 3);
	for (uint32_t i = 0; i < layout->npieces; i++) {
		const struct layout_piece *p = &layout->pieces[i];
		uint64_t end = p->slot_at + p->bytes, last = p->first_leaf + leaf_count(p->bytes);
		if (!p->bytes)
			continue;
		cr_expect_eq(memory_leaf_at(mem, p->first_leaf), p->slot_at);
		cr_expect_eq(memory_leaves_within(mem, p->slot_at), p->first_leaf);
		cr_expect_eq(memory_leaves_within(mem, end), last, "piece %u", i);
		cr_expect_eq(memory_leaves_within(mem, end - 1), last - 1, "piece %u", i);
		if (p->bytes < LEAF_SIZE)
			continue;
		cr_expect_eq(memory_leaves_within(mem, p->slot_at + LEAF_SIZE), p->first_leaf + 1);
		cr_expect_eq(memory_leaf_at(mem, p->first_leaf + 1), p->slot_at + LEAF_SIZE);
	}
	cr_expect_eq(memory_leaves_within(mem, mem->slot_size), layout->nleaves);
	cr_expect_eq(memory_leaf_at(mem, layout->nleaves), mem->slot_size);
}
