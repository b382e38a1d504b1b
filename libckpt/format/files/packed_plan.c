#include "format/files/packed.h"

#include <stdlib.h>

/* The chunk that is being filled. */
struct filling {
	struct packed_chunk *chunks;
	uint32_t n, cap;
	uint32_t plain;
	unsigned planes;
	uint64_t at;
};

static int close_chunk(struct filling *f)
{
	if (!f->plain)
		return 0;
	if (f->n == PACKED_CHUNKS_MAX)
		return -E2BIG;
	if (f->n == f->cap) {
		uint32_t cap = f->cap ? 2 * f->cap : 16;
		struct packed_chunk *grown = reallocarray(f->chunks, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		f->chunks = grown;
		f->cap = cap;
	}
	f->chunks[f->n++] = (struct packed_chunk){.data_at = f->at, .plain = f->plain, .planes = (uint8_t)f->planes};
	f->at += f->plain;
	f->plain = 0;
	return 0;
}

static int add_piece(struct filling *f, uint64_t bytes, unsigned planes)
{
	int rc = bytes && planes != f->planes ? close_chunk(f) : 0;
	for (uint64_t at = 0, leaf; at < bytes && !rc; at += leaf) {
		leaf = min_u64(bytes - at, LEAF_SIZE);
		if (f->plain + leaf > PACKED_CHUNK)
			rc = close_chunk(f);
		f->planes = planes;
		f->plain += (uint32_t)leaf;
	}
	return rc;
}

int packed_plan(uint32_t npieces, void (*piece)(const void *arg, uint32_t i, uint64_t *bytes, unsigned *planes),
		const void *arg, struct packed_index *index)
{
	struct filling f = {0};
	int rc = 0;
	*index = (struct packed_index){0};
	for (uint32_t i = 0; i < npieces && !rc; i++) {
		uint64_t bytes;
		unsigned planes;
		piece(arg, i, &bytes, &planes);
		rc = add_piece(&f, bytes, planes);
	}
	if (!rc)
		rc = close_chunk(&f);
	if (rc < 0) {
		free(f.chunks);
		return rc;
	}
	index->chunks = f.chunks;
	index->nchunks = f.n;
	index->index_size = packed_index_size(f.n);
	index->data_size = f.at;
	return 0;
}
