#include "format/files/packed.h"

#include "format/arena/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_SIZE = 8, MAGIC_VERSION = 7, HEAD_SIZE = 64, CHUNK_SIZE = 56, TAIL_SIZE = 16 };

static const char magic[MAGIC_SIZE] = {'C', 'K', 'P', 'T', 'P', 'C', 'K', '1'};

uint64_t packed_index_size(uint64_t nchunks)
{
	return align_up(HEAD_SIZE + nchunks * CHUNK_SIZE + TAIL_SIZE, LAYOUT_ALIGN);
}

/* Chunks are filled as long as a whole leaf fits, and begun anew where the size of elements changes. */
uint64_t packed_index_max(uint64_t data_size)
{
	return packed_index_size(min_u64(2 * (data_size / PACKED_CHUNK) + PACKED_PLANES, PACKED_CHUNKS_MAX));
}

static uint64_t chunk_bytes(const struct packed_chunk *c)
{
	uint64_t sum = 0;
	for (unsigned p = 0; p < PACKED_PLANES; p++)
		sum += c->stored[p];
	return align_up(sum, LAYOUT_ALIGN);
}

void packed_index_place(struct packed_index *index)
{
	index->index_size = packed_index_size(index->nchunks);
	uint64_t at = index->index_size + index->data_at, data_at = 0;
	for (uint32_t i = 0; i < index->nchunks; i++) {
		struct packed_chunk *c = &index->chunks[i];
		c->at = at;
		c->data_at = data_at;
		c->bytes = (uint32_t)chunk_bytes(c);
		at += c->bytes;
		data_at += c->plain;
	}
	index->data_size = data_at;
	index->size = at;
}

/* ---- written */

static void put_chunk(struct wbuf *out, const struct packed_chunk *c)
{
	wbuf_u64(out, c->digest.low);
	wbuf_u64(out, c->digest.high);
	wbuf_u32(out, c->plain);
	wbuf_u8(out, c->planes);
	wbuf_u8(out, c->packed);
	wbuf_u16(out, 0);
	for (unsigned p = 0; p < PACKED_PLANES; p++)
		wbuf_u32(out, c->stored[p]);
}

int packed_index_encode(const struct packed_index *index, struct wbuf *out)
{
	static const uint8_t zeros[LAYOUT_ALIGN];
	wbuf_put(out, magic, sizeof(magic));
	wbuf_u32(out, PACKED_CHUNK);
	wbuf_u32(out, 0);
	wbuf_u64(out, index->nchunks);
	wbuf_u64(out, index->data_at);
	wbuf_u64(out, index->data_size);
	wbuf_u64(out, index->size);
	wbuf_put(out, zeros, HEAD_SIZE - out->len % HEAD_SIZE);
	for (uint32_t i = 0; i < index->nchunks; i++)
		put_chunk(out, &index->chunks[i]);
	wbuf_put(out, zeros, index->index_size - TAIL_SIZE - (HEAD_SIZE + (uint64_t)index->nchunks * CHUNK_SIZE));
	if (out->failed)
		return -ENOMEM;
	struct digest self = digest_bytes(out->data, out->len);
	wbuf_u64(out, self.low);
	wbuf_u64(out, self.high);
	return wbuf_finish(out);
}

/* ---- read */

static int check_magic(const void *data, size_t len, struct err *err)
{
	const char *found = data;
	if (len < LAYOUT_ALIGN || len % LAYOUT_ALIGN)
		return err_set(err, -EBADMSG, "index: %zu bytes are not a positive multiple of %u", len, LAYOUT_ALIGN);
	if (memcmp(found, magic, MAGIC_VERSION) != 0)
		return err_set(err, -EBADMSG, "index: does not begin with CKPTPCK: not a packed file");
	char version = found[MAGIC_VERSION];
	if (version != magic[MAGIC_VERSION])
		return err_set(err, -EPROTONOSUPPORT, "index: version '%c', this ckpt reads version '%c'",
			       version > ' ' && version < 0x7f ? version : '?', magic[MAGIC_VERSION]);
	return 0;
}

static struct digest get_digest(struct rbuf *in)
{
	struct digest d;
	d.low = rbuf_u64(in);
	d.high = rbuf_u64(in);
	return d;
}

static int check_self(const void *data, size_t len, struct err *err)
{
	struct rbuf in = rbuf_of((const uint8_t *)data + len - TAIL_SIZE, TAIL_SIZE);
	if (digest_equal(get_digest(&in), digest_bytes(data, len - TAIL_SIZE)))
		return 0;
	return err_set(err, -EBADMSG, "index: damaged: its digest does not match its bytes");
}

static bool all_zero(struct rbuf *in, size_t n)
{
	const uint8_t *p = rbuf_take(in, n);
	uint8_t any = p ? 0 : 1;
	for (size_t i = 0; p && i < n; i++)
		any |= p[i];
	return !any;
}

static int read_head(struct rbuf *in, uint64_t *size, struct packed_index *index, struct err *err)
{
	rbuf_take(in, MAGIC_SIZE);
	uint32_t chunk = rbuf_u32(in);
	bool zero = all_zero(in, sizeof(uint32_t));
	uint64_t nchunks = rbuf_u64(in);
	index->data_at = rbuf_u64(in);
	index->data_size = rbuf_u64(in);
	*size = rbuf_u64(in);
	zero = all_zero(in, HEAD_SIZE - in->pos) && zero;
	if (chunk != PACKED_CHUNK || !zero)
		return err_set(err, -EBADMSG,
			       "index: chunks of %" PRIu32 " bytes, not %d, or a reserved field is not 0", chunk,
			       PACKED_CHUNK);
	if (nchunks > PACKED_CHUNKS_MAX || packed_index_size(nchunks) != in->len)
		return err_set(err, -EBADMSG, "index: %" PRIu64 " chunks do not fit %zu bytes", nchunks, in->len);
	if (!index->data_at || index->data_at % LAYOUT_ALIGN || index->data_at > INT64_MAX / 2)
		return err_set(err, -EBADMSG, "index: data_at %" PRIu64 " is not a multiple of %u", index->data_at,
			       LAYOUT_ALIGN);
	index->nchunks = (uint32_t)nchunks;
	return 0;
}

/* What a chunk says of its planes can be true. */
static bool is_plausible(const struct packed_chunk *c)
{
	unsigned n = c->planes;
	if ((n != 1 && n != 2 && n != 4 && n != 8) || !c->plain || c->plain > PACKED_CHUNK || c->plain % n)
		return false;
	if (c->packed >> n)
		return false;
	for (unsigned p = 0; p < PACKED_PLANES; p++) {
		uint32_t whole = p < n ? c->plain / n : 0;
		bool packed = c->packed >> p & 1;
		if (packed ? !c->stored[p] || c->stored[p] >= whole : c->stored[p] != whole)
			return false;
	}
	return true;
}

static int read_chunks(struct rbuf *in, struct packed_index *index, struct err *err)
{
	index->chunks = calloc(index->nchunks ? index->nchunks : 1, sizeof(*index->chunks));
	if (!index->chunks)
		return err_set(err, -ENOMEM, "index: no memory for %u chunks", index->nchunks);
	for (uint32_t i = 0; i < index->nchunks; i++) {
		struct packed_chunk *c = &index->chunks[i];
		c->digest = get_digest(in);
		c->plain = rbuf_u32(in);
		c->planes = rbuf_u8(in);
		c->packed = rbuf_u8(in);
		uint16_t reserved = rbuf_u16(in);
		for (unsigned p = 0; p < PACKED_PLANES; p++)
			c->stored[p] = rbuf_u32(in);
		if (reserved || !is_plausible(c))
			return err_set(err, -EBADMSG,
				       "index: chunk %u of %u bytes in %u planes cannot be as it is described", i,
				       c->plain, c->planes);
	}
	if (!all_zero(in, rbuf_left(in) - TAIL_SIZE))
		return err_set(err, -EBADMSG, "index: there is something behind its chunks");
	return 0;
}

static int check_sums(struct packed_index *index, uint64_t size, uint64_t data_size, struct err *err)
{
	packed_index_place(index);
	if (index->data_size == data_size && index->size == size)
		return 0;
	return err_set(err, -EBADMSG,
		       "index: chunks of %" PRIu64 " bytes of data in a file of %" PRIu64 ", said to be %" PRIu64
		       " and %" PRIu64,
		       index->data_size, index->size, data_size, size);
}

int packed_index_decode(const void *data, size_t len, struct packed_index *index, struct err *err)
{
	struct rbuf in = rbuf_of(data, len);
	uint64_t size = 0, data_size;
	*index = (struct packed_index){0};
	int rc = check_magic(data, len, err);
	if (!rc)
		rc = check_self(data, len, err);
	if (!rc)
		rc = read_head(&in, &size, index, err);
	data_size = index->data_size;
	if (!rc)
		rc = read_chunks(&in, index, err);
	if (!rc)
		rc = check_sums(index, size, data_size, err);
	if (rc < 0)
		packed_index_free(index);
	return rc;
}

void packed_index_free(struct packed_index *index)
{
	free(index->chunks);
	*index = (struct packed_index){0};
}

const struct packed_chunk *packed_find(const struct packed_index *index, uint64_t at, uint64_t len)
{
	uint32_t low = 0, high = index->nchunks;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct packed_chunk *c = &index->chunks[middle];
		if (at < c->data_at)
			high = middle;
		else if (at - c->data_at >= c->plain)
			low = middle + 1;
		else
			return len <= c->plain - (at - c->data_at) ? c : NULL;
	}
	return NULL;
}
