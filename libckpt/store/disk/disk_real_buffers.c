#include "store/disk/disk_real.h"

#include "base/failpoint.h"

#include <stdlib.h>

void buffers_init(struct disk *d)
{
	d->buffer_used = calloc(DISK_BUFFERS, sizeof(*d->buffer_used));
	d->has_buffers = d->buffer_used && d->engine->table(d, DISK_BUFFERS) >= 0;
}

void buffers_free(struct disk *d)
{
	/* The table goes with the engine. */
	free(d->buffer_used);
}

static struct memory *find_memory(const struct disk *d, uintptr_t at)
{
	for (int i = 0; i < DISK_REGIONS; i++) {
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
	if (at / DISK_UNIT >= m->pinned)
		return -1;
	uint64_t end = min_u64((at / DISK_UNIT + 1) * DISK_UNIT, m->size);
	*len = min_u64(*len, end - at);
	return (int)(m->first + at / DISK_UNIT);
}

/* `count` free entries in a row: the first, or -1. */
static int find_entries(const struct disk *d, unsigned count)
{
	unsigned run = 0;
	for (unsigned i = 0; i < DISK_BUFFERS; i++) {
		run = d->buffer_used[i] ? 0 : run + 1;
		if (run == count)
			return (int)(i + 1 - count);
	}
	return -1;
}

/* From the announcement on: nobody else may be given them. */
static void reserve_entries(struct disk *d, const struct memory *m, bool used)
{
	for (unsigned i = 0; i < m->count; i++)
		d->buffer_used[m->first + i] = used;
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
	uint64_t count = div_up(size, DISK_UNIT);
	int first = count > DISK_BUFFERS ? -1 : find_entries(d, (unsigned)count);
	if (first < 0)
		return -ENOSPC;
	for (int i = 0; i < DISK_REGIONS; i++) {
		struct memory *m = &d->memory[i];
		if (m->size)
			continue;
		*m = (struct memory){
			.base = (uintptr_t)base, .size = size, .first = (unsigned)first, .count = (unsigned)count};
		reserve_entries(d, m, true);
		return i;
	}
	return -ENOSPC;
}

static struct memory *of_token(struct disk *d, int token)
{
	return token >= 0 && token < DISK_REGIONS && d->memory[token].size ? &d->memory[token] : NULL;
}

int disk_pin(struct disk *d, int token, uint64_t end)
{
	struct memory *m = of_token(d, token);
	if (!m || end > m->size)
		return -EINVAL;
	uint64_t units = end == m->size ? m->count : end / DISK_UNIT;
	while (m->pinned < units) {
		uint64_t at = (uint64_t)m->pinned * DISK_UNIT;
		int rc = d->engine->pin(d, m->first + m->pinned, m->base + at, min_u64(m->size - at, DISK_UNIT));
		if (rc < 0)
			return rc;
		m->pinned++;
	}
	return 0;
}

void disk_unregister(struct disk *d, int token)
{
	struct memory *m = of_token(d, token);
	if (!m)
		return;
	for (unsigned i = 0; i < m->pinned; i++)
		d->engine->pin(d, m->first + i, 0, 0);
	reserve_entries(d, m, false);
	*m = (struct memory){0};
}
