#include "common/compress.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/rng.h"

enum { COUNT = 2 * COMPRESS_BLOCK + 77 };

static float from[COUNT], residual[COUNT], packed[COUNT], sum[COUNT];

static void draw(uint64_t seed)
{
	for (size_t i = 0; i < COUNT; i++)
		from[i] = rng_normal(seed, 0, i);
	memset(residual, 0, sizeof(residual));
	memset(sum, 0, sizeof(sum));
}

Test(compress, knows_its_kinds_by_name)
{
	enum compress_kind kind = COMPRESS_NONE;

	cr_assert_eq(compress_kind_of("1bit", &kind), 0);
	cr_assert_eq(kind, COMPRESS_1BIT);
	cr_assert_eq(compress_kind_of("none", &kind), 0);
	cr_assert_eq(kind, COMPRESS_NONE);
	cr_assert_eq(compress_kind_of("lz4", &kind), -EINVAL);
}

Test(compress, sizes_are_whole_grains)
{
	cr_expect_eq(compress_size(COMPRESS_INT8, 0), 0);
	cr_expect_eq(compress_size(COMPRESS_INT8, 1), 80);   /* 65 */
	cr_expect_eq(compress_size(COMPRESS_INT8, 256), 80); /* 65 */
	cr_expect_eq(compress_size(COMPRESS_INT8, 257), 144);
	cr_expect_eq(compress_size(COMPRESS_TOPK, 2560), 112); /* 100 */
	cr_expect_eq(compress_size(COMPRESS_1BIT, 2560), 96);  /* 90 */
}

/* Nothing is lost: what arrives and what is kept make up what was given. */
Test(compress, keeps_what_it_leaves_out)
{
	for (enum compress_kind kind = COMPRESS_INT8; kind <= COMPRESS_1BIT; kind++) {
		draw(kind);
		compress_pack(kind, from, residual, COUNT, packed, residual);
		compress_add(kind, packed, 0, COUNT, sum);
		for (size_t i = 0; i < COUNT; i++)
			cr_assert_float_eq(sum[i] + residual[i], from[i], 1e-6, "kind %d, %zu", kind, i);
	}
}

/* Given zeros from then on it hands out the rest in the end. */
Test(compress, gives_out_later_what_it_kept)
{
	static float zeros[COUNT];

	for (enum compress_kind kind = COMPRESS_INT8; kind <= COMPRESS_TOPK; kind++) {
		draw(kind);
		compress_pack(kind, from, residual, COUNT, packed, residual);
		compress_add(kind, packed, 0, COUNT, sum);
		for (int turn = 0; turn < COMPRESS_BLOCK / COMPRESS_TOP; turn++) {
			compress_pack(kind, zeros, residual, COUNT, packed, residual);
			compress_add(kind, packed, 0, COUNT, sum);
		}
		for (size_t i = 0; i < COUNT; i++)
			cr_assert_float_eq(sum[i], from[i], 1e-6, "kind %d, %zu", kind, i);
	}
}

Test(compress, int8_is_near_and_topk_has_the_largest)
{
	float most = 0;
	size_t at = 0;

	draw(7);
	compress_pack(COMPRESS_INT8, from, residual, COUNT, packed, residual);
	compress_add(COMPRESS_INT8, packed, 0, COUNT, sum);
	for (size_t i = 0; i < COUNT; i++)
		cr_assert_float_eq(sum[i], from[i], 3.5 / 127 / 2 + 1e-6);
	draw(7);
	compress_pack(COMPRESS_TOPK, from, residual, COUNT, packed, residual);
	compress_add(COMPRESS_TOPK, packed, 0, COUNT, sum);
	for (size_t i = 0; i < COMPRESS_BLOCK; i++) {
		at = fabsf(from[i]) > most ? i : at;
		most = fabsf(from[at]);
	}
	cr_assert_eq(sum[at], from[at]);
	cr_assert_eq(residual[at], 0);
}

Test(compress, a_range_is_a_part_of_the_whole)
{
	static float part[COUNT];

	for (enum compress_kind kind = COMPRESS_INT8; kind <= COMPRESS_1BIT; kind++) {
		draw(kind);
		memset(part, 0, sizeof(part));
		compress_pack(kind, from, residual, COUNT, packed, residual);
		compress_add(kind, packed, 0, COUNT, sum);
		compress_add(kind, packed, 0, 100, part);
		compress_add(kind, packed, 100, 300, part);
		compress_add(kind, packed, 300, COUNT, part);
		cr_assert_arr_eq(part, sum, sizeof(sum));
	}
}

Test(compress, what_is_no_number_stays_none)
{
	for (enum compress_kind kind = COMPRESS_INT8; kind <= COMPRESS_1BIT; kind++) {
		bool seen = false;

		draw(kind);
		from[300] = kind == COMPRESS_INT8 ? NAN : INFINITY;
		compress_pack(kind, from, residual, COUNT, packed, residual);
		compress_add(kind, packed, 0, COUNT, sum);
		for (size_t i = 0; i < COMPRESS_BLOCK; i++)
			cr_assert(isfinite(sum[i]), "another block");
		for (size_t i = COMPRESS_BLOCK; i < 2 * COMPRESS_BLOCK; i++)
			seen |= !isfinite(sum[i]);
		cr_assert(seen, "kind %d hides it", kind);
	}
}
