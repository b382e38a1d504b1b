#include "store/check/repair_private.h"

#include <stdlib.h>
#include <string.h>

static int open_parts(struct window *w, int dir, const char *name, const struct manifest_file *file)
{
	struct err ignored = {{0}};
	w->data = aligned_alloc(DISK_ALIGN, DISK_CHUNK);
	if (!w->data)
		return -ENOMEM;
	int rc = index_load(w->disk, dir, name, file, &w->index, &ignored);
	if (!rc && w->index.nchunks)
		rc = chunk_unpacker_new(&w->unpacker);
	if (!rc)
		w->file = disk_open_at(w->disk, dir, name, DISK_RDONLY | DISK_DIRECT);
	return rc ? rc : w->file < 0 ? w->file : 0;
}

int window_open(struct window *w, struct disk *disk, int dir, const char *name, const struct manifest_file *file)
{
	*w = (struct window){.disk = disk, .file = -1};
	int rc = open_parts(w, dir, name, file);
	if (rc)
		window_close(w);
	return rc;
}

void window_close(struct window *w)
{
	if (w->data && w->file >= 0)
		disk_close_file(w->disk, w->file);
	free(w->data);
	packed_index_free(&w->index);
	chunk_unpacker_free(w->unpacker);
	*w = (struct window){.file = -1};
}

static bool read_part(struct window *w, uint64_t from, uint64_t len)
{
	struct disk_op op = {.kind = DISK_READ, .file = w->file, .buf = w->data, .offset = from, .len = len};
	w->len = 0;
	if (w->unpacker)
		chunk_forget(w->unpacker);
	if (disk_do(w->disk, &op) < 0)
		return false;
	w->from = from;
	w->len = (uint64_t)op.result;
	return true;
}

static bool holds(const struct window *w, uint64_t from, uint64_t len)
{
	return from >= w->from && from + len <= w->from + w->len;
}

/* A chunk at once; where a sector in it cannot be read, only what was asked for. */
const void *window_take(struct window *w, uint64_t from, uint64_t len)
{
	uint64_t start = from / DISK_ALIGN * DISK_ALIGN;
	if (!w->data)
		return NULL;
	if (!holds(w, from, len) && !read_part(w, start, DISK_CHUNK))
		read_part(w, start, align_up(from + len, DISK_ALIGN) - start);
	return holds(w, from, len) ? w->data + (from - w->from) : NULL;
}

const void *window_plain(struct window *w, uint64_t from, uint64_t len)
{
	const struct packed_index *index = &w->index;
	const struct packed_chunk *chunk;
	const uint8_t *plain;
	struct err ignored;
	if (from < index->data_at || !index->nchunks)
		return window_take(w, index->index_size + from, len);
	chunk = packed_find(index, from - index->data_at, len);
	const void *stored = chunk ? window_take(w, chunk->at, chunk->bytes) : NULL;
	if (!stored || chunk_unpack(w->unpacker, chunk, stored, &plain, &ignored) < 0)
		return NULL;
	return plain + (from - index->data_at - chunk->data_at);
}

int window_copy(struct window *w, uint64_t from, uint64_t len, void *buf)
{
	for (uint64_t at = 0; at < len;) {
		uint64_t part = min_u64(len - at, LEAF_SIZE);
		const void *p = window_plain(w, from + at, part);
		if (!p)
			return -EIO;
		memcpy((uint8_t *)buf + at, p, part);
		at += part;
	}
	return 0;
}
