#include "format/arena/layout.h"
#include "format/files/packed.h"
#include "format/sample.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 40, HEAD = 64, CHUNK = 56, TAIL = 16 };

struct piece {
	uint64_t bytes;
	unsigned planes;
};

static void describe(const void *arg, uint32_t i, uint64_t *bytes, unsigned *planes)
{
	const struct piece *pieces = arg;
	*bytes = pieces[i].bytes;
	*planes = pieces[i].planes;
}

/* By element size, descending, as a layout has them. */
static uint32_t random_pieces(uint64_t *seed, struct piece pieces[PIECES_MAX])
{
	static const uint64_t sizes[] = {
		0, 8, 4096, LEAF_SIZE - 8, LEAF_SIZE, 3 * LEAF_SIZE + 16, PACKED_CHUNK, 5 * PACKED_CHUNK + 8};
	uint32_t n = (uint32_t)sample_below(seed, PIECES_MAX);
	unsigned planes = 8;
	for (uint32_t i = 0; i < n; i++) {
		if (planes > 1 && !sample_below(seed, 8))
			planes /= 2;
		pieces[i] = (struct piece){sizes[sample_below(seed, sizeof(sizes) / sizeof(*sizes))], planes};
	}
	return n;
}

/* What a codec could say of the chunks. */
static void fill(struct packed_index *index, uint64_t *seed)
{
	for (uint32_t i = 0; i < index->nchunks; i++) {
		struct packed_chunk *c = &index->chunks[i];
		uint32_t n = c->plain / c->planes;
		c->digest = (struct digest){sample_random(seed), sample_random(seed)};
		for (unsigned p = 0; p < c->planes; p++) {
			bool packed = n > 1 && sample_below(seed, 2);
			c->packed |= (uint8_t)(packed << p);
			c->stored[p] = packed ? 1 + (uint32_t)sample_below(seed, n - 1) : n;
		}
	}
	index->data_at = LAYOUT_ALIGN * (1 + sample_below(seed, 3));
	packed_index_place(index);
}

static struct packed_index make(uint64_t seed)
{
	struct piece pieces[PIECES_MAX];
	struct packed_index index;
	uint32_t n = random_pieces(&seed, pieces);
	cr_assert_eq(packed_plan(n, describe, pieces, &index), 0);
	fill(&index, &seed);
	return index;
}

Test(packed, a_plan_covers_the_data_with_whole_leaves_of_one_element_size)
{
	for (uint64_t first = 1; first <= 500; first++) {
		struct piece pieces[PIECES_MAX];
		struct packed_index index;
		uint64_t seed = first, at = 0;
		uint32_t n = random_pieces(&seed, pieces);
		cr_assert_eq(packed_plan(n, describe, pieces, &index), 0);
		for (uint32_t i = 0; i < n; i++)
			for (uint64_t from = 0; from < pieces[i].bytes; from += LEAF_SIZE) {
				uint64_t len = min_u64(LEAF_SIZE, pieces[i].bytes - from);
				const struct packed_chunk *c = packed_find(&index, at + from, len);
				cr_assert(c, "seed %lu: a leaf is cut", first);
				cr_assert_eq(c->planes, pieces[i].planes);
				cr_assert_leq(c->plain, PACKED_CHUNK);
				at += from + LEAF_SIZE >= pieces[i].bytes ? pieces[i].bytes : 0;
			}
		cr_assert_eq(index.data_size, at);
		cr_assert_leq(packed_index_size(index.nchunks), packed_index_max(at));
		cr_assert_null(packed_find(&index, at, 1), "beyond the end");
		packed_index_free(&index);
	}
}

Test(packed, an_index_comes_back_as_it_was)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct packed_index index = make(seed), back;
		AUTO_WBUF struct wbuf text = {0};
		struct err err = {{0}};
		cr_assert_eq(packed_index_encode(&index, &text), 0);
		cr_assert_eq(text.len, index.index_size);
		cr_assert_eq(packed_index_decode(text.data, text.len, &back, &err), 0, "seed %lu: %s", seed, err.text);
		cr_assert_eq(back.size, index.size);
		cr_assert_eq(back.index_size, index.index_size);
		cr_assert_eq(back.data_at, index.data_at);
		cr_assert_eq(back.data_size, index.data_size);
		cr_assert_eq(back.nchunks, index.nchunks);
		for (uint32_t i = 0; i < index.nchunks; i++) {
			const struct packed_chunk *a = &index.chunks[i], *b = &back.chunks[i];
			cr_assert(digest_equal(a->digest, b->digest) && a->at == b->at && a->data_at == b->data_at &&
				  a->plain == b->plain && a->bytes == b->bytes && a->planes == b->planes &&
				  a->packed == b->packed && !memcmp(a->stored, b->stored, sizeof(a->stored)));
			cr_assert_eq(a->at % LAYOUT_ALIGN, 0);
		}
		packed_index_free(&index);
		packed_index_free(&back);
	}
}

static void seal(struct wbuf *text)
{
	struct digest d = digest_bytes(text->data, text->len - TAIL);
	memcpy(text->data + text->len - TAIL, &d.low, 8);
	memcpy(text->data + text->len - 8, &d.high, 8);
}

/* An index of one chunk: 4096 elements of 4 bytes, the last plane packed. */
static struct wbuf small(void)
{
	struct piece piece = {16384, 4};
	struct packed_index index;
	struct wbuf text = {0};
	cr_assert_eq(packed_plan(1, describe, &piece, &index), 0);
	struct packed_chunk *c = index.chunks;
	c->packed = 8;
	c->stored[0] = c->stored[1] = c->stored[2] = 4096;
	c->stored[3] = 1000;
	index.data_at = LAYOUT_ALIGN;
	packed_index_place(&index);
	cr_assert_eq(packed_index_encode(&index, &text), 0);
	packed_index_free(&index);
	return text;
}

Test(packed, every_flipped_bit_is_found)
{
	struct wbuf text = small();
	struct packed_index index;
	struct err err;
	for (size_t bit = 0; bit < text.len * 8; bit++) {
		text.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		int rc = packed_index_decode(text.data, text.len, &index, &err);
		cr_assert(rc == -EBADMSG || rc == -EPROTONOSUPPORT, "bit %zu: %d", bit, rc);
		cr_assert_null(index.chunks);
		text.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	wbuf_free(&text);
}

static const struct {
	size_t at;
	uint8_t byte;
	int rc;
	const char *says;
} forged[] = {
	{0, 'X', -EBADMSG, "does not begin with CKPTPCK"},
	{7, '2', -EPROTONOSUPPORT, "version '2'"},
	{10, 0, -EBADMSG, "chunks of 0 bytes"},
	{12, 1, -EBADMSG, "reserved field"},
	{16, 200, -EBADMSG, "200 chunks do not fit"},
	{23, 0x80, -EBADMSG, "chunks do not fit"},
	{24, 1, -EBADMSG, "data_at 4097"},
	{33, 0x41, -EBADMSG, "said to be"},
	{41, 0x33, -EBADMSG, "said to be"},
	{50, 1, -EBADMSG, "reserved field"},
	{HEAD + 16, 1, -EBADMSG, "chunk 0"},    /* plain, not of whole elements */
	{HEAD + 18, 0x20, -EBADMSG, "chunk 0"}, /* plain, above a chunk */
	{HEAD + 20, 3, -EBADMSG, "chunk 0"},    /* planes */
	{HEAD + 20, 0, -EBADMSG, "chunk 0"},
	{HEAD + 21, 0x18, -EBADMSG, "chunk 0"}, /* packs a plane that is not there */
	{HEAD + 21, 0x0c, -EBADMSG, "chunk 0"}, /* packed, and not smaller */
	{HEAD + 21, 0, -EBADMSG, "chunk 0"},    /* not packed, and smaller */
	{HEAD + 22, 1, -EBADMSG, "chunk 0"},    /* reserved */
	{HEAD + 40, 1, -EBADMSG, "chunk 0"},    /* a fifth plane */
	{HEAD + CHUNK, 1, -EBADMSG, "behind its chunks"},
};

Test(packed, what_cannot_be_is_refused)
{
	for (size_t i = 0; i < sizeof(forged) / sizeof(*forged); i++) {
		struct wbuf text = small();
		struct packed_index index;
		struct err err = {{0}};
		text.data[forged[i].at] = forged[i].byte;
		seal(&text);
		cr_expect_eq(packed_index_decode(text.data, text.len, &index, &err), forged[i].rc, "%zu: %s", i,
			     err.text);
		cr_expect(strstr(err.text, forged[i].says), "%zu: %s", i, err.text);
		wbuf_free(&text);
	}
}

Test(packed, a_part_of_an_index_is_refused)
{
	struct wbuf text = small();
	struct packed_index index;
	struct err err;
	for (size_t len = 0; len < text.len; len += 8)
		cr_expect_eq(packed_index_decode(text.data, len, &index, &err), -EBADMSG, "%zu bytes", len);
	wbuf_free(&text);
}
