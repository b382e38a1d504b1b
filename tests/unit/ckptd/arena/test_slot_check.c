#include "arena/slot_check.h"
#include "ckptd/job_maker.h"

#include <criterion/criterion.h>
#include <string.h>

Test(slot_check, finds_the_lowest_damaged_leaf)
{
	struct maker m;
	uint64_t bad = 4711;
	maker_new(&m, (struct step_id){.step = 7, .epoch = 2});
	struct memory *mem = m.mem[0];
	cr_assert_geq(mem->layout.nleaves, 4);
	memory_digest(mem, 0, 0, mem->layout.nleaves, memory_leaves(mem, 0));
	cr_expect(slot_check(mem, 0, &bad));
	cr_expect_eq(bad, 4711);
	memory_leaves(mem, 0)[mem->layout.nleaves - 1] ^= 1;
	cr_expect_not(slot_check(mem, 0, &bad));
	cr_expect_eq(bad, mem->layout.nleaves - 1);
	const struct layout_piece *piece = &mem->layout.pieces[0];
	memory_slot(mem, 0)[piece->slot_at + piece->bytes - 1] ^= 1;
	cr_expect_not(slot_check(mem, 0, &bad));
	cr_expect_eq(bad, piece->first_leaf + leaf_count(piece->bytes) - 1);
	maker_free(&m);
}

static void add(void *arg, uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++)
		atomic_fetch_add(&((_Atomic unsigned *)arg)[i], 1);
}

Test(slot_check, tells_of_the_leaves_that_match_and_looks_at_no_others)
{
	struct maker m;
	_Atomic unsigned told[64] = {0};
	uint64_t bad;
	maker_new(&m, (struct step_id){.step = 7, .epoch = 2});
	struct memory *mem = m.mem[0];
	uint64_t n = mem->layout.nleaves;
	struct slot_leaves some = {.first = 1, .count = n - 2, .right = add, .arg = told};
	cr_assert(n >= 4 && n <= 64);
	memory_digest(mem, 0, 0, n, memory_leaves(mem, 0));
	memory_leaves(mem, 0)[0] ^= 1;
	memory_leaves(mem, 0)[n - 1] ^= 1;
	cr_expect(slot_check_leaves(mem, 0, &some, &bad));
	for (uint64_t i = 0; i < n; i++)
		cr_expect_eq(told[i], i > 0 && i < n - 1, "leaf %lu", (unsigned long)i);
	some.count = n - 1;
	cr_expect_not(slot_check_leaves(mem, 0, &some, &bad));
	cr_expect_eq(bad, n - 1);
	cr_expect_eq(told[n - 1], 0);
	maker_free(&m);
}
