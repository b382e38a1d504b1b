#include "format/tensor/digest.h"
#include "format/tensor/digest_path.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static unsigned char *random_bytes(size_t n)
{
	unsigned char *p = malloc(n);
	uint64_t x = 88172645463325252ull;
	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = (unsigned char)x;
	}
	return p;
}

/* XXH3 changes its way at 16, 128, 240 bytes, and works in stripes of 64 and blocks of 1024. */
static void check_path(const struct digest_path *path)
{
	unsigned char *data = random_bytes(LEAF_SIZE + 64);
	for (size_t len = 0; len <= 3000; len++)
		cr_assert_eq(path->leaf(data + len % 64, len), XXH3_64bits(data + len % 64, len), "%s %zu", path->name,
			     len);
	for (size_t block = 1024; block <= LEAF_SIZE; block += 1024)
		for (size_t len = block - 65; len <= block + 65 && len <= LEAF_SIZE; len += 13)
			cr_assert_eq(path->leaf(data + 1, len), XXH3_64bits(data + 1, len), "%s %zu", path->name, len);
	cr_assert_eq(path->leaf(data, LEAF_SIZE), XXH3_64bits(data, LEAF_SIZE), "%s", path->name);
	free(data);
}

/* One test for each, so that one which this machine cannot take is a skip of its own. */
static void check_named(const char *name)
{
	size_t count;
	const struct digest_path *paths = digest_paths(&count);
	for (size_t p = 0; p < count; p++) {
		if (strcmp(paths[p].name, name))
			continue;
		if (!paths[p].usable())
			cr_skip_test("this CPU lacks %s", name);
		check_path(&paths[p]);
		return;
	}
	cr_skip_test("%s is not compiled for this architecture", name);
}

Test(digest, the_avx512_path_is_the_library_bit_for_bit)
{
	check_named("avx512");
}

Test(digest, the_avx2_path_is_the_library_bit_for_bit)
{
	check_named("avx2");
}

Test(digest, the_last_path_is_the_library_and_always_usable)
{
	size_t count;
	const struct digest_path *paths = digest_paths(&count);
	cr_assert(paths[count - 1].usable());
	check_path(&paths[count - 1]);
}

Test(digest, leaves_restart_every_64_kib_and_the_last_is_short)
{
	static const uint64_t sizes[] = {
		0, 1, LEAF_SIZE - 1, LEAF_SIZE, LEAF_SIZE + 1, 2 * LEAF_SIZE, 3 * LEAF_SIZE + 17};
	unsigned char *data = random_bytes(4 * LEAF_SIZE);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t leaves[5] = {0}, n = leaf_count(sizes[i]);
		leaves[n] = 0xdeadbeef;
		digest_leaves(data, sizes[i], leaves);
		for (uint64_t k = 0; k < n; k++) {
			uint64_t len = sizes[i] - k * LEAF_SIZE < LEAF_SIZE ? sizes[i] - k * LEAF_SIZE : LEAF_SIZE;
			cr_assert_eq(leaves[k], XXH3_64bits(data + k * LEAF_SIZE, len));
			cr_assert_eq(leaves[k], digest_leaf(data + k * LEAF_SIZE, len));
		}
		cr_assert_eq(leaves[n], 0xdeadbeef);
	}
	free(data);
}

Test(digest, leaf_count_does_not_wrap)
{
	cr_assert_eq(leaf_count(0), 0u);
	cr_assert_eq(leaf_count(LEAF_SIZE), 1u);
	cr_assert_eq(leaf_count(UINT64_MAX), UINT64_MAX / LEAF_SIZE + 1);
}

Test(digest, a_piece_is_the_hash_of_its_leaf_digests)
{
	uint64_t leaves[3] = {0x0102030405060708, 0x1112131415161718, 0x2122232425262728};
	unsigned char bytes[24];
	for (int i = 0; i < 24; i++)
		bytes[i] = (unsigned char)(leaves[i / 8] >> 8 * (i % 8));
	cr_assert(digest_equal(digest_piece(leaves, 3), digest_bytes(bytes, 24)));
	cr_assert_not(digest_equal(digest_piece(leaves, 3), digest_piece(leaves, 2)));
}

/* Published vectors of XXH3-128 and XXH3-64, seed 0: what is on disk never changes. */
Test(digest, the_empty_digest_is_the_published_one)
{
	char text[DIGEST_TEXT];
	digest_text(digest_bytes(NULL, 0), text);
	cr_assert_str_eq(text, "99aa06d3014798d86001c324468d497f");
	cr_assert_eq(digest_leaf(NULL, 0), 0x2d06800538d394c2ull);
}

Test(digest, text_is_the_canonical_form)
{
	struct digest d = digest_bytes("checkpoint", 10);
	XXH128_canonical_t canonical;
	XXH128_canonicalFromHash(&canonical, (XXH128_hash_t){.low64 = d.low, .high64 = d.high});
	char want[DIGEST_TEXT], text[DIGEST_TEXT];
	for (int i = 0; i < 16; i++)
		snprintf(want + 2 * i, 3, "%02x", canonical.digest[i]);
	digest_text(d, text);
	cr_assert_str_eq(text, want);
}

Test(digest, text_parses_back)
{
	struct digest d = {.low = 0x0123456789abcdef, .high = 0xfedcba9876543210}, back;
	char text[DIGEST_TEXT];
	digest_text(d, text);
	cr_assert_eq(digest_parse(text, &back), 0);
	cr_assert(digest_equal(d, back));
}

Test(digest, anything_but_32_lower_case_digits_is_refused)
{
	static const char *const bad[] = {
		"",
		"0",
		"0123456789abcdef0123456789abcde",
		"0123456789abcdef0123456789abcdef0",
		"0123456789ABCDEF0123456789abcdef",
		"0123456789abcdef0123456789abcdeg",
		"0x23456789abcdef0123456789abcdef",
		" 123456789abcdef0123456789abcdef",
		"0123456789abcdef 123456789abcdef",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct digest d = {1, 2};
		cr_assert_eq(digest_parse(bad[i], &d), -EINVAL, "%s", bad[i]);
		cr_assert(digest_equal(d, (struct digest){1, 2}));
	}
}
