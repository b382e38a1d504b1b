#include "arena/slot_check.h"
#include "ckptd/job_maker.h"

#include <criterion/criterion.h>
#include <string.h>

/* Memory for copies of the maker's first rank, with its table and, in the second slot, its snapshot. */
static struct memory *hold(const struct memory *of, uint64_t nleaves, uint64_t slot_size)
{
	AUTO_WBUF struct wbuf table = {0};
	struct memory *mem = NULL;
	struct err err = {{0}};
	cr_assert_eq(memory_table(of, &table), 0);
	cr_assert_eq(table.len, of->table_len);
	cr_assert_eq(memory_hold(of->sum, table.len, nleaves, slot_size, &mem, &err), 0, "%s", err.text);
	cr_assert_eq(mem->size, memory_hold_cost(table.len, nleaves, slot_size));
	memcpy(mem->base, table.data, table.len);
	return mem;
}

Test(memory_held, what_was_copied_is_understood_and_checked)
{
	struct maker m;
	struct err err = {{0}};
	uint64_t bad = 0;
	maker_new(&m, (struct step_id){.step = 7, .epoch = 2});
	const struct memory *of = m.mem[0];
	struct memory *mem = hold(of, of->layout.nleaves, of->slot_size);
	cr_assert_eq(memory_learn(mem, &err), 0, "%s", err.text);
	cr_expect(table_equal(mem->table, of->table));
	cr_expect(layout_equal(&mem->layout, &of->layout));
	memcpy(memory_slot(mem, 1), memory_slot(of, 0), of->slot_size);
	memcpy(memory_leaves(mem, 1), memory_leaves(of, 0), of->layout.nleaves * sizeof(uint64_t));
	cr_expect(slot_check(mem, 1, &bad));
	memory_slot(mem, 1)[of->layout.pieces[0].slot_at] ^= 1;
	cr_expect_not(slot_check(mem, 1, &bad));
	memory_put(mem);
	maker_free(&m);
}

Test(memory_held, a_table_that_lies_is_refused_and_another_may_follow)
{
	struct maker m;
	struct err err = {{0}};
	maker_new(&m, (struct step_id){.step = 7, .epoch = 2});
	const struct memory *of = m.mem[0];
	struct memory *mem = hold(of, of->layout.nleaves + 1, of->slot_size);
	cr_expect_eq(memory_learn(mem, &err), -EBADMSG);
	cr_expect(strstr(err.text, "the offer said"), "%s", err.text);
	cr_expect_eq(mem->layout.nleaves, of->layout.nleaves + 1);
	memory_put(mem);
	mem = hold(of, of->layout.nleaves, of->slot_size);
	mem->base[of->table_len - 1] ^= 1;
	cr_expect_eq(memory_learn(mem, &err), -EBADMSG);
	mem->base[of->table_len - 1] ^= 1;
	cr_expect_eq(memory_learn(mem, &err), 0);
	memory_put(mem);
	maker_free(&m);
}

Test(memory_held, sizes_that_cannot_be_are_refused)
{
	struct memory *mem;
	struct err err;
	struct digest none = {0};
	cr_expect_eq(memory_hold_cost(1, 1, UINT64_MAX / 2 + 4096), 0);
	cr_expect_eq(memory_hold_cost(1, UINT64_MAX / 8, 4096), 0);
	cr_expect_eq(memory_hold_cost(UINT64_MAX, 1, 4096), 0);
	cr_expect_eq(memory_hold(none, 1, 1, UINT64_MAX / 2 + 4096, &mem, &err), -EOVERFLOW);
}
