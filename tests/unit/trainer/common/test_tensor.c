#include "common/tensor.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct model_config demo = {.layers = 2, .width = 64, .seq_len = 64, .heads = 4};

Test(tensor, layout_has_no_gaps)
{
	struct tensor table[64];
	size_t count = tensor_count(&demo), end = 0, size = tensor_layout(&demo, table);

	cr_assert_eq(count, 29);
	for (size_t i = 0; i < count; i++) {
		cr_assert_eq(table[i].offset, end);
		cr_assert_eq(table[i].count, (size_t)(table[i].shape[0] * table[i].shape[1]));
		end += table[i].count;
	}
	cr_assert_eq(end, size);
}

Test(tensor, names_are_unique)
{
	struct tensor table[64];
	size_t count = tensor_count(&demo);

	tensor_layout(&demo, table);
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++)
			cr_assert_str_neq(table[i].name, table[j].name);
}

Test(tensor, parts_are_where_their_index_says)
{
	struct tensor table[64];

	tensor_layout(&demo, table);
	cr_assert_str_eq(table[tensor_of_block(1, BLOCK_DOWN_WEIGHT)].name, "block.1.mlp.down.weight");
	cr_assert_eq(table[tensor_of_block(1, BLOCK_DOWN_WEIGHT)].shape[1], 256);
	cr_assert_str_eq(table[tensor_of_last(&demo, LAST_HEAD_WEIGHT)].name, "head.weight");
}

Test(tensor, vectors_have_one_dimension)
{
	struct tensor table[64];

	tensor_layout(&demo, table);
	cr_assert_eq(table[tensor_of_block(0, BLOCK_QKV_BIAS)].dims, 1);
	cr_assert_eq(table[tensor_of_block(0, BLOCK_QKV_BIAS)].shape[0], 192);
	cr_assert_eq(table[tensor_of_block(0, BLOCK_QKV_WEIGHT)].dims, 2);
}
