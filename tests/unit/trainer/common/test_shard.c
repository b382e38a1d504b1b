#include "common/shard.h"

#include "common/compress.h"

#include <criterion/criterion.h>

static const struct model_config demo = {.layers = 3, .width = 20, .seq_len = 9, .heads = 4};

Test(shard, ranges_are_a_partition_in_rank_order)
{
	for (size_t size = 0; size < 400; size++)
		for (int world = 1; world <= 9; world++) {
			size_t end = 0;

			for (int rank = 0; rank < world; rank++) {
				struct shard_range r = shard_range(size, rank, world);

				cr_assert_eq(r.begin, end);
				cr_assert_leq(r.begin, r.end);
				end = r.end;
			}
			cr_assert_eq(end, size);
		}
}

Test(shard, ranges_are_even)
{
	struct shard_range first = shard_range(136960, 0, 4), last = shard_range(136960, 3, 4);

	cr_assert_eq(first.end % 16, 0);
	cr_assert_leq(first.end - first.begin - (last.end - last.begin), 64);
}

/* Marks what a rank's segments say it owns; each element of the flat vector must be marked once. */
static void mark(const struct tensor *table, size_t count, int rank, int world, size_t size, unsigned char *owned)
{
	struct shard_segment segments[64];
	struct shard_range range = shard_range(size, rank, world);
	size_t n = shard_segments(table, count, range, segments, 64), at = 0;

	for (size_t i = 0; i < n; i++) {
		const struct shard_segment *s = &segments[i];
		size_t flat = table[s->tensor].offset + s->tensor_start;

		cr_assert_gt(s->count, 0);
		cr_assert_eq(s->shard_start, at);
		cr_assert_eq(flat, range.begin + at);
		cr_assert_leq(s->tensor_start + s->count, table[s->tensor].count);
		for (size_t j = 0; j < s->count; j++)
			owned[flat + j]++;
		at += s->count;
	}
	cr_assert_eq(at, range.end - range.begin);
}

Test(shard, segments_of_all_ranks_are_a_partition_of_all_tensors)
{
	static unsigned char owned[64 * 1024];
	struct tensor table[64];
	size_t count = tensor_count(&demo), size = tensor_layout(&demo, table);

	cr_assert_leq(size, sizeof(owned));
	for (int world = 1; world <= 40; world++) {
		for (int rank = 0; rank < world; rank++)
			mark(table, count, rank, world, size, owned);
		for (size_t i = 0; i < size; i++)
			cr_assert_eq(owned[i], world);
	}
}

Test(shard, too_many_segments_are_counted_but_not_written)
{
	struct tensor table[64];
	struct shard_segment segments[2] = {{0}, {99, 99, 99, 99}};
	size_t count = tensor_count(&demo), size = tensor_layout(&demo, table);

	cr_assert_eq(shard_segments(table, count, (struct shard_range){0, size}, segments, 1), count);
	cr_assert_eq(segments[0].count, table[0].count);
	cr_assert_eq(segments[1].tensor, 99);
}

Test(shard, state_names_carry_the_tensor)
{
	struct tensor t = {.name = "head.weight"};
	char name[SHARD_NAME_SIZE];

	shard_state_name(name, SHARD_EXP_AVG, &t);
	cr_assert_str_eq(name, "optim.exp_avg.head.weight");
	shard_state_name(name, SHARD_EXP_AVG_SQ, &t);
	cr_assert_str_eq(name, "optim.exp_avg_sq.head.weight");
}

/* What a rank of the largest model computes with, without having it: more bytes than 32 bits count, and more than 2^31 elements in all that a rank
 * of one keeps. */
Test(shard, the_largest_model_is_counted_in_64_bits)
{
	static const struct model_config largest = {.layers = 48, .width = 1600, .seq_len = 1024, .heads = 25};
	static struct tensor table[1024];
	static struct shard_segment segments[1024];
	size_t count = tensor_count(&largest), size = tensor_layout(&largest, table);

	cr_assert_eq(size, table[count - 1].offset + table[count - 1].count);
	cr_assert_eq(size, (size_t)48 * (12 * 1600 * 1600 + 13 * 1600) + 2 * 256 * 1600 + 1024 * 1600 + 2 * 1600);
	cr_assert_gt(size * sizeof(float), (size_t)UINT32_MAX);
	for (int world = 1; world <= 8; world *= 2) {
		size_t end = 0;

		for (int rank = 0; rank < world; rank++) {
			struct shard_range range = shard_range(size, rank, world);
			size_t n = shard_segments(table, count, range, segments, 1024), sum = 0;

			cr_assert_eq(range.begin, end);
			end = range.end;
			cr_assert_leq(n, count);
			for (size_t i = 0; i < n; i++) {
				const struct shard_segment *s = &segments[i];

				cr_assert_eq(table[s->tensor].offset + s->tensor_start, range.begin + s->shard_start);
				cr_assert_leq(s->tensor_start + s->count, table[s->tensor].count);
				sum += s->count;
			}
			cr_assert_eq(sum, range.end - range.begin);
		}
		cr_assert_eq(end, size);
	}
	cr_assert_eq(compress_size(COMPRESS_INT8, size), ((size + 255) / 256 * 65 + 15) / 16 * 16);
	cr_assert_gt(8 * compress_size(COMPRESS_INT8, size) * sizeof(float), (size_t)UINT32_MAX);
}
