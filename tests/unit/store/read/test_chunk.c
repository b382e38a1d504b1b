#include "store/read/chunk.h"

#include "format/arena/layout.h"
#include "store_maker.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static struct chunk_packer *packer;
static struct chunk_unpacker *unpacker;
static uint8_t plain[PACKED_CHUNK], stored[PACKED_CHUNK];

static void setup(void)
{
	cr_assert_eq(chunk_packer_new(&packer), 0);
	cr_assert_eq(chunk_unpacker_new(&unpacker), 0);
}

static void teardown(void)
{
	chunk_packer_free(packer);
	chunk_unpacker_free(unpacker);
}

TestSuite(chunk, .init = setup, .fini = teardown);

static void fill(uint64_t seed, enum dtype dtype, uint32_t n)
{
	struct shape shape = {1, {n}};
	struct region whole = region_whole(&shape);
	store_fill(seed, "w", dtype, &shape, &whole, plain);
}

static struct packed_chunk pack(uint32_t bytes, unsigned planes)
{
	struct packed_chunk c = {.data_at = 77};
	memset(stored, 0xa5, sizeof(stored));
	chunk_pack(packer, plain, bytes, planes, &c, stored);
	cr_assert_eq(c.plain, bytes);
	cr_assert_eq(c.planes, planes);
	cr_assert_eq(c.data_at, 77);
	cr_assert_eq(c.bytes % LAYOUT_ALIGN, 0);
	cr_assert_leq(c.bytes, chunk_bound(bytes));
	cr_assert(digest_equal(c.digest, digest_bytes(stored, c.bytes)));
	return c;
}

static int unpack(const struct packed_chunk *c, const uint8_t **out)
{
	struct err err = {{0}};
	chunk_forget(unpacker);
	int rc = chunk_unpack(unpacker, c, stored, out, &err);
	cr_assert(!rc || err.text[0]);
	return rc;
}

static void expect_back(const struct packed_chunk *c)
{
	const uint8_t *out;
	cr_assert_eq(unpack(c, &out), 0);
	cr_assert_arr_eq(out, plain, c->plain);
}

Test(chunk, every_element_size_and_length_comes_back)
{
	static const enum dtype dtypes[] = {DTYPE_U8, DTYPE_BF16, DTYPE_F32, DTYPE_F64};
	static const uint32_t counts[] = {1, 2, 63, 255, 256, 257, 5000, 16384, PACKED_CHUNK / 8};
	for (unsigned d = 0; d < 4; d++)
		for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++)
			for (unsigned weights = 0; weights < 2; weights++) {
				fill(weights ? STORE_WEIGHTS | i : i, dtypes[d], counts[i]);
				unsigned size = dtype_size(dtypes[d]);
				struct packed_chunk c = pack(counts[i] * size, size);
				expect_back(&c);
			}
}

Test(chunk, the_exponents_of_weights_are_packed_and_nothing_else)
{
	fill(STORE_WEIGHTS, DTYPE_F32, PACKED_CHUNK / 4);
	struct packed_chunk c = pack(PACKED_CHUNK, 4);
	cr_expect_eq(c.packed, 8);
	cr_expect_lt(c.stored[3], PACKED_CHUNK / 4 / 2, "eight values take three bits: %u", c.stored[3]);
	fill(STORE_WEIGHTS, DTYPE_BF16, PACKED_CHUNK / 2);
	c = pack(PACKED_CHUNK, 2);
	cr_expect_eq(c.packed, 2);
}

Test(chunk, what_does_not_shrink_is_stored_as_it_is)
{
	fill(1, DTYPE_F32, PACKED_CHUNK / 4);
	struct packed_chunk c = pack(PACKED_CHUNK, 4);
	cr_expect_eq(c.packed, 0);
	cr_expect_eq(c.bytes, PACKED_CHUNK);
}

Test(chunk, zeros_take_next_to_nothing)
{
	memset(plain, 0, sizeof(plain));
	struct packed_chunk c = pack(PACKED_CHUNK, 4);
	cr_expect_eq(c.bytes, LAYOUT_ALIGN);
	expect_back(&c);
}

Test(chunk, the_same_input_gives_the_same_bytes)
{
	static uint8_t before[PACKED_CHUNK];
	fill(STORE_WEIGHTS | 5, DTYPE_BF16, PACKED_CHUNK / 2);
	struct packed_chunk a = pack(PACKED_CHUNK, 2);
	memcpy(before, stored, a.bytes);
	fill(9, DTYPE_F64, 1000);
	pack(8000, 8);
	fill(STORE_WEIGHTS | 5, DTYPE_BF16, PACKED_CHUNK / 2);
	struct packed_chunk b = pack(PACKED_CHUNK, 2);
	cr_assert_eq(a.bytes, b.bytes);
	cr_assert_arr_eq(before, stored, a.bytes);
}

Test(chunk, every_flipped_bit_is_found)
{
	const uint8_t *out;
	fill(STORE_WEIGHTS, DTYPE_F32, 1500);
	struct packed_chunk c = pack(6000, 4);
	for (size_t bit = 0; bit < 8ul * c.bytes; bit++) {
		stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(unpack(&c, &out), -EBADMSG, "bit %zu", bit);
		stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	expect_back(&c);
}

/* Whoever makes the digests fit still cannot make the decoder write beyond its planes, or read more than a frame. */
Test(chunk, a_forged_frame_is_refused)
{
	const uint8_t *out;
	static uint8_t large[PACKED_CHUNK], other[PACKED_CHUNK];
	memset(large, 7, sizeof(large));
	fill(STORE_WEIGHTS, DTYPE_BF16, 4096);
	struct packed_chunk c = pack(8192, 2);
	uint8_t *frame = stored + c.stored[0];
	static const size_t sizes[] = {4095, 4097, 100000, 0};
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = ZSTD_compress(other, sizeof(other), large, sizes[i], 1);
		struct packed_chunk forged = c;
		memcpy(frame, other, n);
		forged.stored[1] = (uint32_t)n;
		forged.digest = digest_bytes(stored, c.bytes);
		cr_expect_eq(unpack(&forged, &out), -EBADMSG, "a frame of %zu bytes", sizes[i]);
	}
	size_t n = ZSTD_compress(other, sizeof(other), large, 4096, 1);
	memcpy(frame, other, n);
	struct packed_chunk tail = c;
	tail.stored[1] = (uint32_t)n + 3;
	tail.digest = digest_bytes(stored, c.bytes);
	cr_expect_eq(unpack(&tail, &out), -EBADMSG, "something behind the frame");
}

Test(chunk, what_was_unpacked_is_kept_until_it_is_forgotten)
{
	const uint8_t *out;
	struct err err;
	fill(STORE_WEIGHTS, DTYPE_F32, 1500);
	struct packed_chunk c = pack(6000, 4);
	expect_back(&c);
	stored[0] ^= 1;
	cr_expect_eq(chunk_unpack(unpacker, &c, stored, &out, &err), 0);
	chunk_forget(unpacker);
	cr_expect_eq(chunk_unpack(unpacker, &c, stored, &out, &err), -EBADMSG);
}
