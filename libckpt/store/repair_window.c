#include "store/repair_private.h"

#include <stdlib.h>
#include <string.h>

int window_open(struct window *w, struct disk *disk, int dir, const char *name)
{
	*w = (struct window){.disk = disk, .file = -1};
	w->data = aligned_alloc(DISK_ALIGN, DISK_CHUNK);
	if (!w->data)
		return -ENOMEM;
	w->file = disk_open_at(disk, dir, name, DISK_RDONLY | DISK_DIRECT);
	if (w->file >= 0)
		return 0;
	free(w->data);
	w->data = NULL;
	return w->file;
}

void window_close(struct window *w)
{
	if (w->data && w->file >= 0)
		disk_close_file(w->disk, w->file);
	free(w->data);
	*w = (struct window){.file = -1};
}

static bool read_part(struct window *w, uint64_t from, uint64_t len)
{
	struct disk_op op = {.kind = DISK_READ, .file = w->file, .buf = w->data, .offset = from, .len = len};
	w->len = 0;
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

int window_copy(struct window *w, uint64_t from, uint64_t len, void *buf)
{
	for (uint64_t at = 0; at < len;) {
		uint64_t part = min_u64(len - at, LEAF_SIZE);
		const void *p = window_take(w, from + at, part);
		if (!p)
			return -EIO;
		memcpy((uint8_t *)buf + at, p, part);
		at += part;
	}
	return 0;
}
