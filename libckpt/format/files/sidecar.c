#include "format/files/sidecar.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_SIZE = 8, MAGIC_VERSION = 7, HEAD_SIZE = 64, PIECE_SIZE = 40, TAIL_SIZE = 16 };

static const char magic[MAGIC_SIZE] = {'C', 'K', 'P', 'T', 'X', 'X', 'H', '1'};

uint64_t sidecar_size(uint64_t npieces, uint64_t nleaves)
{
	return HEAD_SIZE + npieces * PIECE_SIZE + nleaves * sizeof(uint64_t) + TAIL_SIZE;
}

static void put_digest(struct wbuf *out, struct digest d)
{
	wbuf_u64(out, d.low);
	wbuf_u64(out, d.high);
}

static void put_pieces(const struct layout_piece *pieces, uint32_t n, const uint64_t *leaves, struct wbuf *out)
{
	uint64_t first_leaf = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t count = leaf_count(pieces[i].bytes);
		wbuf_u64(out, pieces[i].at);
		wbuf_u64(out, pieces[i].bytes);
		wbuf_u64(out, first_leaf);
		put_digest(out, digest_piece(leaves + pieces[i].first_leaf, count));
		first_leaf += count;
	}
	for (uint32_t i = 0; i < n; i++)
		for (uint64_t l = 0; l < leaf_count(pieces[i].bytes); l++)
			wbuf_u64(out, leaves[pieces[i].first_leaf + l]);
}

int sidecar_encode(const struct layout *layout, uint32_t file, uint64_t data_at, struct digest header,
		   const uint64_t *leaves, struct wbuf *out)
{
	const struct layout_file *f = &layout->files[file];
	const struct layout_piece *pieces = layout->pieces + f->first_piece;
	uint64_t nleaves = 0;
	for (uint32_t i = 0; i < f->npieces; i++)
		nleaves += leaf_count(pieces[i].bytes);
	if (nleaves > SIDECAR_LEAVES_MAX)
		return -E2BIG;
	size_t start = out->len;
	wbuf_put(out, magic, sizeof(magic));
	wbuf_u32(out, LEAF_SIZE);
	wbuf_u32(out, 0);
	wbuf_u64(out, f->npieces);
	wbuf_u64(out, nleaves);
	wbuf_u64(out, data_at);
	wbuf_u64(out, f->data_size);
	put_digest(out, header);
	put_pieces(pieces, f->npieces, leaves, out);
	if (!out->failed)
		put_digest(out, digest_bytes(out->data + start, out->len - start));
	return wbuf_finish(out);
}

static struct digest get_digest(struct rbuf *in)
{
	struct digest d;
	d.low = rbuf_u64(in);
	d.high = rbuf_u64(in);
	return d;
}

static int check_magic(const void *data, size_t len, struct err *err)
{
	const char *found = data;
	if (len < HEAD_SIZE + TAIL_SIZE)
		return err_set(err, -EBADMSG, "sidecar: %zu bytes are too few: truncated?", len);
	if (memcmp(found, magic, MAGIC_VERSION) != 0)
		return err_set(err, -EBADMSG, "sidecar: does not begin with CKPTXXH: not a sidecar");
	char version = found[MAGIC_VERSION];
	if (version != magic[MAGIC_VERSION])
		return err_set(err, -EPROTONOSUPPORT, "sidecar: version '%c', this ckpt reads version '%c'",
			       version > ' ' && version < 0x7f ? version : '?', magic[MAGIC_VERSION]);
	return 0;
}

/* The fixed part, and that the counts in it are those of a sidecar of len bytes. */
static int read_head(struct rbuf *in, struct sidecar *sc, struct err *err)
{
	rbuf_take(in, MAGIC_SIZE);
	uint32_t leaf_size = rbuf_u32(in), reserved = rbuf_u32(in);
	sc->npieces = rbuf_u64(in);
	sc->nleaves = rbuf_u64(in);
	sc->data_at = rbuf_u64(in);
	sc->data_size = rbuf_u64(in);
	sc->header = get_digest(in);
	if (leaf_size != LEAF_SIZE || reserved)
		return err_set(err, -EBADMSG,
			       "sidecar: leaf size %" PRIu32 " and reserved field %" PRIu32 ", not %u and 0", leaf_size,
			       reserved, LEAF_SIZE);
	if (sc->npieces > REGISTRATION_PIECES_MAX || sc->nleaves > SIDECAR_LEAVES_MAX ||
	    sidecar_size(sc->npieces, sc->nleaves) != in->len)
		return err_set(err, -EBADMSG, "sidecar: %" PRIu64 " pieces and %" PRIu64 " leaves do not fit %zu bytes",
			       sc->npieces, sc->nleaves, in->len);
	if (!sc->data_at || sc->data_at % LAYOUT_ALIGN)
		return err_set(err, -EBADMSG, "sidecar: data_at %" PRIu64 " is not a multiple of %u", sc->data_at,
			       LAYOUT_ALIGN);
	return 0;
}

static int check_self(const void *data, size_t len, struct err *err)
{
	struct rbuf in = rbuf_of((const uint8_t *)data + len - TAIL_SIZE, TAIL_SIZE);
	if (digest_equal(get_digest(&in), digest_bytes(data, len - TAIL_SIZE)))
		return 0;
	return err_set(err, -EBADMSG, "sidecar: damaged: its digest does not match its bytes");
}

static int read_body(struct rbuf *in, struct sidecar *sc, struct err *err)
{
	sc->pieces = calloc(sc->npieces ? sc->npieces : 1, sizeof(*sc->pieces));
	sc->leaves = calloc(sc->nleaves ? sc->nleaves : 1, sizeof(*sc->leaves));
	if (!sc->pieces || !sc->leaves)
		return err_set(err, -ENOMEM, "sidecar: no memory for %" PRIu64 " leaves", sc->nleaves);
	for (uint64_t i = 0; i < sc->npieces; i++) {
		struct sidecar_piece *p = &sc->pieces[i];
		p->at = rbuf_u64(in);
		p->bytes = rbuf_u64(in);
		p->first_leaf = rbuf_u64(in);
		p->digest = get_digest(in);
	}
	for (uint64_t i = 0; i < sc->nleaves; i++)
		sc->leaves[i] = rbuf_u64(in);
	return 0;
}

/* Pieces follow each other without gaps, in bytes and in leaves, and each digest is that of its leaves. */
static int check_pieces(const struct sidecar *sc, struct err *err)
{
	uint64_t at = 0, leaf = 0;
	for (uint64_t i = 0; i < sc->npieces; i++) {
		const struct sidecar_piece *p = &sc->pieces[i];
		if (p->at != at || p->bytes > sc->data_size - at)
			return err_set(err, -EBADMSG,
				       "sidecar: piece %" PRIu64 " [%" PRIu64 ", +%" PRIu64
				       ") does not follow its predecessor's end %" PRIu64 " within %" PRIu64 " bytes",
				       i, p->at, p->bytes, at, sc->data_size);
		uint64_t count = leaf_count(p->bytes);
		if (p->first_leaf != leaf || count > sc->nleaves - leaf)
			return err_set(err, -EBADMSG,
				       "sidecar: piece %" PRIu64 ": leaves [%" PRIu64 ", +%" PRIu64 ") of %" PRIu64, i,
				       p->first_leaf, count, sc->nleaves);
		if (!digest_equal(p->digest, digest_piece(sc->leaves + leaf, count)))
			return err_set(err, -EBADMSG,
				       "sidecar: piece %" PRIu64 ": its digest is not that of its leaves", i);
		at += p->bytes;
		leaf += count;
	}
	if (at != sc->data_size || leaf != sc->nleaves)
		return err_set(err, -EBADMSG, "sidecar: pieces cover %" PRIu64 " of %" PRIu64 " bytes", at,
			       sc->data_size);
	return 0;
}

int sidecar_decode(const void *data, size_t len, struct sidecar *sc, struct err *err)
{
	*sc = (struct sidecar){0};
	struct rbuf in = rbuf_of(data, len);
	int rc = check_magic(data, len, err);
	if (!rc)
		rc = read_head(&in, sc, err);
	if (!rc)
		rc = check_self(data, len, err);
	if (!rc)
		rc = read_body(&in, sc, err);
	if (!rc)
		rc = check_pieces(sc, err);
	if (rc < 0)
		sidecar_free(sc);
	return rc;
}

void sidecar_free(struct sidecar *sc)
{
	free(sc->pieces);
	free(sc->leaves);
	*sc = (struct sidecar){0};
}
