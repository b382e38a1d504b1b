#include "registry/mirror_private.h"

#include "registry/answer_private.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 64 };

struct mirror mirror_empty(size_t records_max, uint64_t bytes_max)
{
	return (struct mirror){.round = 1, .records_max = records_max, .bytes_max = bytes_max};
}

void mirror_record_free(struct mirror_record *record)
{
	if (!record)
		return;
	free(record->key);
	free(record->value);
	free(record);
}

void mirror_free(struct mirror *m)
{
	for (size_t i = 0; i < m->n; i++)
		mirror_record_free(m->records[i]);
	free(m->records);
	*m = (struct mirror){0};
}

static uint64_t bytes_of(const char *key, size_t len)
{
	return sizeof(struct mirror_record) + sizeof(struct mirror_record *) + strlen(key) + 1 + len;
}

/* Where the key is or would be. */
static size_t place_of(const struct mirror *m, const char *key)
{
	size_t low = 0, high = m->n;
	if (m->n && strcmp(m->records[m->n - 1]->key, key) < 0)
		return m->n; /* they come in order at first */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (strcmp(m->records[mid]->key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct mirror_record *at_place(const struct mirror *m, size_t at, const char *key)
{
	return at < m->n && !strcmp(m->records[at]->key, key) ? m->records[at] : NULL;
}

const struct mirror_record *mirror_find(const struct mirror *m, const char *key)
{
	return at_place(m, place_of(m, key), key);
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */

static struct mirror_record *insert(struct mirror *m, size_t at, char *key)
{
	if (m->n == m->room) {
		size_t room = m->room ? 2 * m->room : ROOM_MIN;
		struct mirror_record **records = realloc(m->records, room * sizeof(struct mirror_record *));
		if (!records)
			return NULL;
		m->records = records;
		m->room = room;
	}
	struct mirror_record *new = calloc(1, sizeof(*new));
	if (!new)
		return NULL;
	new->key = key;
	memmove(m->records + at + 1, m->records + at, (m->n - at) * sizeof(struct mirror_record *));
	m->records[at] = new;
	m->n++;
	return new;
}

static void take(struct mirror *m, struct mirror_record *to, struct answer_record *from)
{
	free(to->value);
	to->value = from->value;
	to->len = from->len;
	to->created = from->created;
	to->changed = from->changed;
	to->lease = from->lease;
	to->marked = m->round;
	from->value = NULL;
}

int mirror_put(struct mirror *m, struct answer_record *record)
{
	size_t at = place_of(m, record->key);
	struct mirror_record *old = at_place(m, at, record->key);
	if (old && old->created == record->created && old->changed == record->changed && old->len == record->len &&
	    !memcmp(old->value, record->value, record->len)) {
		old->marked = m->round;
		return 0;
	}
	uint64_t bytes = m->bytes + bytes_of(record->key, record->len) - (old ? bytes_of(old->key, old->len) : 0);
	if (bytes > m->bytes_max || (!old && m->n == m->records_max))
		return -ENOSPC;
	if (!old) {
		old = insert(m, at, record->key);
		if (!old)
			return -ENOMEM;
		record->key = NULL;
	}
	take(m, old, record);
	m->bytes = bytes;
	return 1;
}

static struct mirror_record *take_out(struct mirror *m, size_t at)
{
	struct mirror_record *record = m->records[at];
	m->n--;
	memmove(m->records + at, m->records + at + 1, (m->n - at) * sizeof(struct mirror_record *));
	m->bytes -= bytes_of(record->key, record->len);
	return record;
}

struct mirror_record *mirror_remove(struct mirror *m, const char *key, uint64_t changed)
{
	size_t at = place_of(m, key);
	const struct mirror_record *record = at_place(m, at, key);
	return record && record->changed < changed ? take_out(m, at) : NULL;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

void mirror_unmark(struct mirror *m)
{
	m->round++;
}

bool mirror_mark(struct mirror *m, const char *key, uint64_t created, uint64_t changed)
{
	struct mirror_record *record = at_place(m, place_of(m, key), key);
	bool same = record && record->created == created && record->changed == changed;
	if (same)
		record->marked = m->round;
	return same;
}

struct mirror_record *mirror_sweep(struct mirror *m, size_t *at)
{
	for (; *at < m->n; ++*at)
		if (m->records[*at]->marked != m->round)
			return take_out(m, *at);
	return NULL;
}

const struct mirror_record *mirror_next(const struct mirror *m, const char *prefix, const struct mirror_record *after)
{
	size_t at = place_of(m, after ? after->key : prefix);
	if (after)
		at++;
	return at < m->n && !strncmp(m->records[at]->key, prefix, strlen(prefix)) ? m->records[at] : NULL;
}
