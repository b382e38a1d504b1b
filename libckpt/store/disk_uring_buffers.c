#include "store/disk_uring.h"

#include "base/failpoint.h"

#include <liburing.h>
#include <stdlib.h>

void buffers_init(struct disk *d)
{
	d->buffer_used = calloc(URING_BUFFERS, sizeof(*d->buffer_used));
	d->has_buffers = d->buffer_used && io_uring_register_buffers_sparse(d->ring, URING_BUFFERS) >= 0;
}

void buffers_free(struct disk *d)
{
	/* The table goes with the ring. */
	free(d->buffer_used);
}

static struct memory *find_memory(const struct disk *d, uintptr_t at)
{
	for (int i = 0; i < URING_REGIONS; i++) {
		const struct memory *m = &d->memory[i];
		if (m->size && at >= m->base && at - m->base < m->size)
			return (struct memory *)m;
	}
	return NULL;
}

int buffers_find(const struct disk *d, const void *buf, uint64_t *len)
{
	const struct memory *m = find_memory(d, (uintptr_t)buf);
	if (!m)
		return -1;
	uint64_t at = (uintptr_t)buf - m->base;
	uint64_t end = min_u64((at / URING_BUFFER_MAX + 1) * URING_BUFFER_MAX, m->size);
	*len = min_u64(*len, end - at);
	return (int)(m->first + at / URING_BUFFER_MAX);
}

/* `count` free entries in a row: the first, or -1. */
static int find_entries(const struct disk *d, unsigned count)
{
	unsigned run = 0;
	for (unsigned i = 0; i < URING_BUFFERS; i++) {
		run = d->buffer_used[i] ? 0 : run + 1;
		if (run == count)
			return (int)(i + 1 - count);
	}
	return -1;
}

static int set_entry(struct disk *d, unsigned index, uintptr_t base, uint64_t size)
{
	struct iovec iov = {.iov_base = (void *)base, .iov_len = size};
	int rc = io_uring_register_buffers_update_tag(d->ring, index, &iov, NULL, 1);
	if (rc < 0)
		return rc;
	d->buffer_used[index] = size != 0;
	return 0;
}

static void clear_memory(struct disk *d, struct memory *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		if (d->buffer_used[m->first + i])
			set_entry(d, m->first + i, 0, 0);
	}
	*m = (struct memory){0};
}

static int fill_memory(struct disk *d, struct memory *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		uint64_t at = (uint64_t)i * URING_BUFFER_MAX;
		int rc = set_entry(d, m->first + i, m->base + at, min_u64(m->size - at, URING_BUFFER_MAX));
		if (rc < 0) {
			clear_memory(d, m);
			return rc;
		}
	}
	return 0;
}

int disk_register(struct disk *d, void *base, uint64_t size)
{
	int rc = failpoint("disk.register", NULL);
	if (rc)
		return rc;
	if (!size || find_memory(d, (uintptr_t)base))
		return -EINVAL;
	if (!d->has_buffers)
		return -ENOTSUP;
	uint64_t count = div_up(size, URING_BUFFER_MAX);
	int first = count > URING_BUFFERS ? -1 : find_entries(d, (unsigned)count);
	if (first < 0)
		return -ENOSPC;
	for (int i = 0; i < URING_REGIONS; i++) {
		struct memory *m = &d->memory[i];
		if (m->size)
			continue;
		*m = (struct memory){(uintptr_t)base, size, (unsigned)first, (unsigned)count};
		rc = fill_memory(d, m);
		return rc < 0 ? rc : i;
	}
	return -ENOSPC;
}

void disk_unregister(struct disk *d, int token)
{
	if (token >= 0 && token < URING_REGIONS && d->memory[token].size)
		clear_memory(d, &d->memory[token]);
}
