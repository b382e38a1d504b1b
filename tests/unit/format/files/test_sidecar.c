#include "format/files/sidecar.h"
#include "format/sample.h"

#include <criterion/criterion.h>

enum { PIECES_MAX = 12 };

/* A rank of two files; the sidecar is that of the second, so that leaves and pieces do not begin at 0. */
struct rank {
	struct layout layout;
	struct layout_file files[2];
	struct layout_piece pieces[PIECES_MAX];
	uint64_t *leaves;
};

static void rank_make(struct rank *r, uint64_t seed)
{
	static const uint64_t sizes[] = {0, 1, 4095, LEAF_SIZE - 1, LEAF_SIZE, LEAF_SIZE + 1, 5 * LEAF_SIZE + 17};
	*r = (struct rank){.layout = {.world = 1, .nfiles = 2}};
	r->layout.files = r->files;
	r->layout.pieces = r->pieces;
	for (uint32_t f = 0; f < 2; f++) {
		uint64_t at = 0;
		r->files[f].first_piece = r->layout.npieces;
		r->files[f].npieces = (uint32_t)sample_below(&seed, PIECES_MAX / 2 + 1);
		for (uint32_t i = 0; i < r->files[f].npieces; i++) {
			struct layout_piece *p = &r->pieces[r->layout.npieces++];
			*p = (struct layout_piece){.file = f, .at = at, .first_leaf = r->layout.nleaves};
			p->bytes = sizes[sample_below(&seed, sizeof(sizes) / sizeof(sizes[0]))];
			at += p->bytes;
			r->layout.nleaves += leaf_count(p->bytes);
		}
		r->files[f].data_size = at;
	}
	r->leaves = calloc(r->layout.nleaves + 1, sizeof(*r->leaves));
	for (uint64_t i = 0; i < r->layout.nleaves; i++)
		r->leaves[i] = sample_random(&seed);
}

static const struct digest header = {1, 2};

static struct wbuf encode(const struct rank *r)
{
	struct wbuf out = {0};
	cr_assert_eq(sidecar_encode(&r->layout, 1, 2 * LAYOUT_ALIGN, header, r->leaves, &out), 0);
	return out;
}

Test(sidecar, a_sidecar_comes_back_as_it_was)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct rank r;
		struct sidecar sc;
		struct err err = {""};
		rank_make(&r, seed);
		struct wbuf data = encode(&r);
		cr_assert_eq(sidecar_decode(data.data, data.len, &sc, &err), 0, "seed %lu: %s", seed, err.text);
		cr_assert_eq(sidecar_size(sc.npieces, sc.nleaves), data.len);
		cr_assert_eq(sc.npieces, r.files[1].npieces);
		cr_assert_eq(sc.data_size, r.files[1].data_size);
		cr_assert_eq(sc.data_at, 2 * LAYOUT_ALIGN);
		cr_assert(digest_equal(sc.header, header));
		for (uint64_t i = 0; i < sc.npieces; i++) {
			const struct layout_piece *p = &r.pieces[r.files[1].first_piece + i];
			const uint64_t *leaves = r.leaves + p->first_leaf;
			cr_assert_eq(sc.pieces[i].at, p->at);
			cr_assert_eq(sc.pieces[i].bytes, p->bytes);
			cr_assert(digest_equal(sc.pieces[i].digest, digest_piece(leaves, leaf_count(p->bytes))));
			cr_assert_eq(memcmp(sc.leaves + sc.pieces[i].first_leaf, leaves, leaf_count(p->bytes) * 8), 0);
		}
		sidecar_free(&sc);
		wbuf_free(&data);
		free(r.leaves);
	}
}

static int decode_copy(const uint8_t *data, size_t len, struct err *err)
{
	struct sidecar sc;
	uint8_t *copy = malloc(len ? len : 1); /* exactly as long, so that a read past the end is seen */
	memcpy(copy, data, len);
	int rc = sidecar_decode(copy, len, &sc, err);
	cr_assert(!rc || (!sc.pieces && !sc.leaves));
	sidecar_free(&sc);
	free(copy);
	return rc;
}

Test(sidecar, every_flipped_bit_is_found)
{
	struct rank r;
	struct err err;
	rank_make(&r, 5);
	struct wbuf data = encode(&r);
	cr_assert_gt(r.files[1].npieces, 2);
	cr_assert_eq(decode_copy(data.data, data.len, &err), 0);
	for (size_t bit = 0; bit < data.len * 8; bit++) {
		data.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		int rc = decode_copy(data.data, data.len, &err);
		cr_assert(rc == -EBADMSG || (rc == -EPROTONOSUPPORT && bit / 8 == 7), "bit %zu: %d", bit, rc);
		data.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	wbuf_free(&data);
	free(r.leaves);
}

Test(sidecar, every_truncation_and_extension_is_found)
{
	struct rank r;
	struct err err;
	rank_make(&r, 6);
	struct wbuf data = encode(&r);
	for (size_t len = 0; len < data.len; len++)
		cr_assert_eq(decode_copy(data.data, len, &err), -EBADMSG, "length %zu", len);
	wbuf_u64(&data, 0);
	cr_assert_eq(decode_copy(data.data, data.len, &err), -EBADMSG);
	wbuf_free(&data);
	free(r.leaves);
}

static void poke(struct wbuf *data, size_t at, uint64_t v)
{
	for (size_t i = 0; i < 8; i++)
		data->data[at + i] = (uint8_t)(v >> 8 * i);
}

/* Sets one field and makes the digest of the whole right again: what remains is the decoder's own checks. */
static int forge(struct wbuf *data, size_t at, uint64_t v, struct err *err)
{
	uint8_t *old = memcpy(malloc(data->len), data->data, data->len);
	poke(data, at, v);
	struct digest d = digest_bytes(data->data, data->len - 16);
	poke(data, data->len - 16, d.low);
	poke(data, data->len - 8, d.high);
	int rc = decode_copy(data->data, data->len, err);
	memcpy(data->data, old, data->len);
	free(old);
	return rc;
}

Test(sidecar, forged_fields_are_found)
{
	enum { LEAF_SIZE_AT = 8, NPIECES = 16, NLEAVES = 24, DATA_AT = 32, DATA_SIZE = 40, PIECE = 64 };
	struct rank r;
	struct err err;
	rank_make(&r, 5);
	struct wbuf data = encode(&r);
	uint64_t npieces = r.files[1].npieces, nleaves = (data.len - 80 - npieces * 40) / 8;
	const struct {
		size_t at;
		uint64_t v;
		const char *message;
	} cases[] = {
		{LEAF_SIZE_AT, 32768, "leaf size 32768"},
		{LEAF_SIZE_AT, LEAF_SIZE | 1ull << 32, "reserved field 1"},
		{NPIECES, UINT64_MAX / 40 + 2, "do not fit"},
		{NPIECES, npieces + 1, "do not fit"},
		{NLEAVES, UINT64_MAX / 8 + 2, "do not fit"},
		{NLEAVES, nleaves - 1, "do not fit"},
		{DATA_AT, 4095, "not a multiple"},
		{DATA_AT, 0, "not a multiple"},
		{DATA_SIZE, r.files[1].data_size + 1, "pieces cover"},
		{DATA_SIZE, 0, "does not follow"},
		{PIECE, 1, "does not follow"},
		{PIECE + 8, UINT64_MAX, "does not follow"},
		{PIECE + 8, r.pieces[r.files[1].first_piece].bytes + 1, "piece "},
		{PIECE + 16, 1, "leaves"},
		{PIECE + 24, 1, "its digest is not that of its leaves"},
		{data.len - 24, 1, "its digest is not that of its leaves"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(forge(&data, cases[i].at, cases[i].v, &err), -EBADMSG, "case %zu", i);
		cr_expect_not_null(strstr(err.text, cases[i].message), "case %zu: %s", i, err.text);
	}
	wbuf_free(&data);
	free(r.leaves);
}

Test(sidecar, another_version_is_refused_with_both_named)
{
	struct rank r;
	struct err err;
	rank_make(&r, 1);
	struct wbuf data = encode(&r);
	data.data[7] = '2';
	cr_assert_eq(decode_copy(data.data, data.len, &err), -EPROTONOSUPPORT);
	cr_assert_str_eq(err.text, "sidecar: version '2', this ckpt reads version '1'");
	wbuf_free(&data);
	free(r.leaves);
}
