#include "job_maker.h"
#include "slot_check.h"

#include <criterion/criterion.h>
#include <string.h>

Test(slot_check, finds_the_lowest_damaged_leaf, .timeout = 60)
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
