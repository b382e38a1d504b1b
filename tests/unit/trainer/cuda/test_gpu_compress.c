/* The kernels of packed gradients in the emulator: the bits of the host. */
#include "cuda/gpu_compress.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/rng.h"

enum { COUNT = 5 * COMPRESS_BLOCK + 77, ROOM = 2 * COUNT };

static float from[COUNT], residual[COUNT], packed[2][ROOM], left[2][COUNT], sum[2][COUNT];

static void draw(uint64_t seed)
{
	for (size_t i = 0; i < COUNT; i++) {
		from[i] = rng_normal(seed, 0, i) * (i % 7 ? 1e-3f : 1e3f);
		residual[i] = rng_normal(seed, 1, i);
	}
	memset(from + COMPRESS_BLOCK, 0, COMPRESS_BLOCK * sizeof(float)); /* a block of zeros */
	memset(residual + COMPRESS_BLOCK, 0, COMPRESS_BLOCK * sizeof(float));
	memset(packed, 0xff, sizeof(packed));
	for (size_t i = 0; i < COUNT; i++)
		sum[0][i] = sum[1][i] = rng_normal(seed, 2, i);
}

/* A NaN is any NaN. */
static bool same(const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof(float)) && !(isnan(a[i]) && isnan(b[i])))
			return false;
	return true;
}

static void compare(enum compress_kind kind, size_t count, const char *what)
{
	const size_t size = compress_size(kind, count), begin = count / 3, end = count - count / 5;

	compress_pack(kind, from, residual, count, packed[0], left[0]);
	cr_assert_eq(gpu_compress_pack(kind, from, residual, count, packed[1], left[1], NULL), 0);
	cr_assert(same(packed[0], packed[1], size), "kind %d, %zu elements, %s", kind, count, what);
	cr_assert(same(left[0], left[1], count), "kind %d, %zu elements, %s", kind, count, what);
	compress_add(kind, packed[0], begin, end, sum[0]);
	cr_assert_eq(gpu_compress_add(kind, packed[1], begin, end, sum[1], NULL), 0);
	cr_assert(same(sum[0], sum[1], COUNT), "kind %d, %zu elements, %s", kind, count, what);
}

Test(gpu_compress, packs_and_unpacks_with_the_bits_of_the_host)
{
	static const size_t counts[] = {0, 1, COMPRESS_BLOCK - 1, COMPRESS_BLOCK, COMPRESS_BLOCK + 1, COUNT};

	for (enum compress_kind kind = COMPRESS_INT8; kind <= COMPRESS_1BIT; kind++)
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			draw(10 * (uint64_t)kind + i);
			compare(kind, counts[i], "drawn");
		}
}

Test(gpu_compress, what_is_no_number_spoils_the_same_blocks)
{
	for (enum compress_kind kind = COMPRESS_INT8; kind <= COMPRESS_1BIT; kind++) {
		draw(kind);
		from[3] = NAN;
		from[COMPRESS_BLOCK + 9] = INFINITY;
		for (size_t i = 2 * COMPRESS_BLOCK; i < 3 * COMPRESS_BLOCK; i++)
			from[i] = NAN;
		compare(kind, COUNT, "spoiled");
		cr_assert(isnan(left[1][3]));
	}
}
