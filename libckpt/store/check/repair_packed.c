/* The node manifest vouches for the index, and the index for every stored byte: what is mended must be the very bytes that were there. They
 * are taken from the damaged file or from a donor that is packed alike. Where nobody has them they are packed anew, out of leaves, and
 * believed when they come out the same, as they do with the version of zstd that wrote them. */
#include "store/check/repair_private.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct packing {
	struct mending *m;
	struct chunk_packer *packer;
	const struct packed_index *index;
	uint8_t plain[PACKED_CHUNK], stored[PACKED_CHUNK];
};

/* ---- leaves ------------------------------------------------------------------------------------------------------- */

struct cursor {
	uint64_t piece, at; /* at: in the piece */
};

/* The next leaf before `end` of the data section. */
static bool next_leaf(const struct sidecar *sc, struct cursor *c, uint64_t end, uint64_t *at, uint64_t *len,
		      uint64_t *digest)
{
	while (c->piece < sc->npieces && c->at == sc->pieces[c->piece].bytes)
		*c = (struct cursor){c->piece + 1, 0};
	const struct sidecar_piece *p = c->piece < sc->npieces ? &sc->pieces[c->piece] : NULL;
	if (!p || p->at + c->at >= end)
		return false;
	*at = p->at + c->at;
	*len = min_u64(p->bytes - c->at, LEAF_SIZE);
	*digest = sc->leaves[p->first_leaf + c->at / LEAF_SIZE];
	c->at += *len;
	return true;
}

/* Counts the chunk's leaves; 0: one of them is not as it should be. */
static uint64_t good_leaves(const struct mending *m, struct cursor from, const struct packed_chunk *c,
			    const uint8_t *plain)
{
	uint64_t at, len, digest, n = 0;
	for (; next_leaf(m->sc, &from, c->data_at + c->plain, &at, &len, &digest); n++)
		if (digest_leaf(plain + (at - c->data_at), len) != digest)
			return 0;
	return n;
}

static void pass_over(const struct mending *m, struct cursor *cursor, const struct packed_chunk *c)
{
	uint64_t at, len, digest;
	while (next_leaf(m->sc, cursor, c->data_at + c->plain, &at, &len, &digest))
		;
}

/* The chunk's plain bytes, each leaf from whoever has it. */
static int gather(struct packing *p, struct cursor from, const struct packed_chunk *c)
{
	struct mending *m = p->m;
	uint64_t at, len, digest;
	while (next_leaf(m->sc, &from, c->data_at + c->plain, &at, &len, &digest)) {
		uint64_t place = m->file->data_at + at;
		const void *leaf = mend_leaf(m, place, len, digest);
		if (!leaf)
			return err_set(m->err, -EBADMSG, "nobody has bytes %" PRIu64 " to %" PRIu64 " of what %s holds",
				       place, place + len, m->file->name);
		memcpy(p->plain + (at - c->data_at), leaf, len);
	}
	return 0;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------- */

/* The stored bytes, if this file has them. */
static const void *take_stored(const struct mending *m, struct window *w, struct cursor from,
			       const struct packed_chunk *c, uint64_t *leaves)
{
	const uint8_t *plain;
	struct err ignored;
	const void *stored = w->unpacker ? window_take(w, c->at, c->bytes) : NULL;
	if (!stored || chunk_unpack(w->unpacker, c, stored, &plain, &ignored) < 0)
		return NULL;
	*leaves = good_leaves(m, from, c, plain);
	return *leaves ? stored : NULL;
}

static const void *from_donors(struct mending *m, struct cursor from, const struct packed_chunk *c)
{
	uint64_t leaves;
	for (uint32_t i = 0; i < m->donors->n; i++) {
		struct donor *d = &m->donors->donor[i];
		bool alike = d->packed.index_size && digest_equal(d->packed.index, m->file->packed.index);
		const void *stored = alike ? take_stored(m, &d->window, from, c, &leaves) : NULL;
		if (!stored)
			continue;
		m->foreign += leaves;
		return stored;
	}
	return NULL;
}

static int pack_anew(struct packing *p, struct cursor from, const struct packed_chunk *c)
{
	struct packed_chunk made = {0};
	int rc = gather(p, from, c);
	if (rc)
		return rc;
	chunk_pack(p->packer, p->plain, c->plain, c->planes, &made, p->stored);
	if (digest_equal(made.digest, c->digest) && made.bytes == c->bytes)
		return 0;
	return err_set(p->m->err, -EBADMSG,
		       "what %s holds is all there, but bytes %" PRIu64 " to %" PRIu64
		       " come out otherwise when they are packed anew",
		       p->m->file->name, c->at, c->at + c->bytes);
}

static int mend_chunk(struct packing *p, struct cursor from, const struct packed_chunk *c)
{
	uint64_t leaves;
	const void *stored = take_stored(p->m, &p->m->damaged, from, c, &leaves);
	if (!stored)
		stored = from_donors(p->m, from, c);
	int rc = stored ? 0 : pack_anew(p, from, c);
	return rc ? rc : mend_put(p->m, c->at, stored ? stored : p->stored, c->bytes);
}

static int mend_chunks(struct packing *p)
{
	struct cursor cursor = {0};
	int rc = 0;
	for (uint32_t i = 0; i < p->index->nchunks && !rc; i++) {
		rc = mend_chunk(p, cursor, &p->index->chunks[i]);
		pass_over(p->m, &cursor, &p->index->chunks[i]);
	}
	return rc;
}

/* ---- the index ---------------------------------------------------------------------------------------------------- */

static const struct packed_index *find_index(const struct mending *m)
{
	if (m->damaged.index.nchunks)
		return &m->damaged.index;
	for (uint32_t i = 0; i < m->donors->n; i++) {
		const struct donor *d = &m->donors->donor[i];
		if (d->window.index.nchunks && digest_equal(d->packed.index, m->file->packed.index))
			return &d->window.index;
	}
	return NULL;
}

static int put_index(struct packing *p)
{
	AUTO_WBUF struct wbuf text = {0};
	if (packed_index_encode(p->index, &text) < 0)
		return err_set(p->m->err, -ENOMEM, "no memory for the index of %s", p->m->file->name);
	if (!digest_equal(digest_bytes(text.data, text.len), p->m->file->packed.index))
		return err_set(p->m->err, -EBADMSG, "nobody has the index of %s", p->m->file->name);
	return mend_put(p->m, 0, text.data, text.len);
}

struct described {
	const struct node_manifest *node;
	const struct manifest_file *file;
};

static void describe(const void *arg, uint32_t i, uint64_t *bytes, unsigned *planes)
{
	const struct described *d = arg;
	const struct manifest_piece *piece = &d->file->pieces[i];
	*bytes = piece->bytes;
	*planes = dtype_size(d->node->tensors[piece->tensor].dtype);
}

/* As it would be written today. */
static int make_index(struct packing *p, const struct node_manifest *node, struct packed_index *index)
{
	struct mending *m = p->m;
	struct described what = {node, m->file};
	struct cursor cursor = {0};
	int rc = packed_plan(m->file->npieces, describe, &what, index);
	if (rc)
		return err_set(m->err, rc == -ENOMEM ? rc : -EBADMSG, "nobody has the index of %s", m->file->name);
	index->data_at = m->file->data_at;
	for (uint32_t i = 0; i < index->nchunks && !rc; i++) {
		struct packed_chunk *c = &index->chunks[i];
		rc = gather(p, cursor, c);
		pass_over(m, &cursor, c);
		if (!rc)
			chunk_pack(p->packer, p->plain, c->plain, c->planes, c, p->stored);
	}
	packed_index_place(index);
	return rc;
}

static const struct node_manifest *node_of(const struct mending *m)
{
	const struct checkpoint *ck = &m->r->ck;
	uint32_t n = 0;
	while (m->file < ck->nodes[n].files || m->file >= ck->nodes[n].files + ck->nodes[n].nfiles)
		n++;
	return &ck->nodes[n];
}

static int mend_with(struct packing *p)
{
	struct packed_index made = {0};
	int rc = 0;
	p->index = find_index(p->m);
	if (!p->index) {
		rc = make_index(p, node_of(p->m), &made);
		p->index = &made;
	}
	if (!rc)
		rc = put_index(p);
	if (!rc)
		rc = mend_chunks(p);
	packed_index_free(&made);
	return rc;
}

int mend_packed(struct mending *m)
{
	AUTO_FREE struct packing *p = malloc(sizeof(*p));
	if (!p || chunk_packer_new(&p->packer) < 0)
		return err_set(m->err, -ENOMEM, "no memory to pack %s", m->file->name);
	p->m = m;
	int rc = mend_with(p);
	chunk_packer_free(p->packer);
	return rc;
}
