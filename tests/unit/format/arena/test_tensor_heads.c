#include "format/arena/tensor_heads.h"
#include "format/make_registration.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { MANY = 1000 };

static void index_it(struct registration *reg)
{
	struct err err;
	cr_assert_eq(registration_index(reg, &err), 0, "%s", err.text);
}

static uint64_t digest_of(enum dtype dtype, uint64_t rows, const char *name, uint64_t held)
{
	struct registration reg = {.rank = 1, .world = 2};
	add_tensor(&reg, "b", DTYPE_F32, shape1(7), "", region_flat(0, 7));
	add_tensor(&reg, name, dtype, shape1(rows), "", region_flat(0, held));
	add_blob(&reg, "clock", ENTRY_JOB_BLOB, held);
	index_it(&reg);
	uint64_t digest = tensor_heads_digest(&reg);
	registration_free(&reg);
	return digest;
}

Test(tensor_heads, a_digest_is_of_names_types_and_shapes_and_of_nothing_else)
{
	uint64_t digest = digest_of(DTYPE_F32, 10, "w", 10);
	cr_expect(digest);
	cr_expect_eq(digest_of(DTYPE_F32, 10, "w", 3), digest, "which pieces a rank holds is its own");
	cr_expect_neq(digest_of(DTYPE_BF16, 10, "w", 10), digest);
	cr_expect_neq(digest_of(DTYPE_F32, 11, "w", 10), digest);
	cr_expect_neq(digest_of(DTYPE_F32, 10, "a", 10), digest);
}

Test(tensor_heads, a_rank_without_tensors_has_none)
{
	struct registration reg = {.rank = 1, .world = 2};
	add_blob(&reg, "clock", ENTRY_JOB_BLOB, 8);
	index_it(&reg);
	cr_expect_eq(tensor_heads_digest(&reg), 0);
	registration_free(&reg);
}

static void add_many(struct registration *reg)
{
	char name[32];
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "layer.%d", i);
		if (i % 10 == 3)
			add_blob(reg, name, ENTRY_RANK_BLOB, 8);
		else
			add_tensor(reg, name, DTYPE_F32, shape1(10 + i), "", region_flat(0, 10));
	}
	index_it(reg);
}

Test(tensor_heads, they_are_listed_in_parts_and_found_again)
{
	AUTO_WBUF struct wbuf all = {0}, parts = {0};
	struct registration reg = {.rank = 1, .world = 2};
	char text[TENSOR_HEAD_TEXT];
	uint32_t next = 0, n = 0;
	add_many(&reg);
	cr_expect_eq(tensor_heads_put(&reg, 0, MANY, &all, &next), MANY - MANY / 10);
	cr_expect_eq(next, 0);
	do {
		uint32_t first = next;
		n += tensor_heads_put(&reg, first, 7, &parts, &next);
		cr_assert(!next || next == first + 7);
	} while (next);
	cr_expect_eq(n, MANY - MANY / 10);
	cr_assert_eq(parts.len, all.len);
	cr_expect_arr_eq(parts.data, all.data, all.len);
	cr_expect_eq(tensor_heads_put(&reg, MANY + 5, 7, &parts, &next), 0, "beyond the end there is nothing");
	const struct entry *found = tensor_heads_find(&reg, tensor_heads_get(all.data, 1).name);
	cr_expect_str_eq(found->name, "layer.1");
	cr_expect_str_eq(tensor_head_text(found, text, sizeof(text)), "F32 [11]");
	cr_expect_null(tensor_heads_find(&reg, 1));
	registration_free(&reg);
}
