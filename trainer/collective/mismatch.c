#include "collective/mismatch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Those who count: they were in that epoch, and came as far as the ranks that saw a difference. */
struct view {
	const struct communicator_place *all;
	int n;
	uint32_t epoch;
	uint64_t sequence;
};

static bool counts(const struct view *v, const struct communicator_place *place)
{
	return place->epoch == v->epoch && place->sequence >= v->sequence;
}

static bool alike(const struct communicator_place *a, const struct communicator_place *b)
{
	return a->sequence == b->sequence && a->bytes == b->bytes && a->dtype == b->dtype &&
	       !strncmp(a->op, b->op, sizeof(a->op));
}

/* The newest epoch with a difference, and the earliest collective in which it was seen. */
static bool look(struct view *v)
{
	for (int i = 0; i < v->n; i++) {
		const struct communicator_place *place = &v->all[i];

		if (!place->mismatch || place->epoch < v->epoch)
			continue;
		v->sequence = place->epoch > v->epoch || place->sequence < v->sequence ? place->sequence : v->sequence;
		v->epoch = place->epoch;
	}
	return v->epoch;
}

static int count_alike(const struct view *v, const struct communicator_place *place)
{
	int n = 0;

	for (int i = 0; i < v->n; i++)
		n += counts(v, &v->all[i]) && alike(&v->all[i], place);
	return n;
}

/* NULL: no more than half agree. */
static const struct communicator_place *majority(const struct view *v)
{
	int known = 0;

	for (int i = 0; i < v->n; i++)
		known += counts(v, &v->all[i]);
	for (int i = 0; i < v->n; i++)
		if (counts(v, &v->all[i]) && 2 * count_alike(v, &v->all[i]) > known)
			return &v->all[i];
	return NULL;
}

__attribute__((format(printf, 3, 4))) static size_t put(char text[MISMATCH_TEXT_SIZE], size_t used, const char *format,
							...)
{
	va_list arguments;

	va_start(arguments, format);
	if (used < MISMATCH_TEXT_SIZE)
		used += (size_t)vsnprintf(text + used, MISMATCH_TEXT_SIZE - used, format, arguments);
	va_end(arguments);
	return used;
}

static size_t put_place(char text[MISMATCH_TEXT_SIZE], size_t used, const struct communicator_place *place)
{
	return put(text, used, "%.*s #%" PRIu64 " of %" PRIu64 " bytes%s", (int)sizeof(place->op), place->op,
		   place->sequence, place->bytes, ring_type_text(place->dtype));
}

/* Those who are elsewhere than `most`; NULL: all that count. */
static size_t put_others(char text[MISMATCH_TEXT_SIZE], const struct view *v, const struct communicator_place *most)
{
	size_t used = put(text, 0, "mismatch: ");
	bool first = true;

	for (int i = 0; i < v->n; i++) {
		const struct communicator_place *place = &v->all[i];

		if (!counts(v, place) || (most && alike(place, most)))
			continue;
		used = put(text, used, "%srank %d %s ", first ? "" : ", ", (int)place->rank, first ? "was in" : "in");
		used = put_place(text, used, place);
		first = false;
	}
	return first ? 0 : used;
}

bool mismatch_find(const struct communicator_place *all, int n, char text[MISMATCH_TEXT_SIZE])
{
	struct view v = {.all = all, .n = n};
	bool differed = look(&v);
	const struct communicator_place *most = differed ? majority(&v) : NULL;
	size_t used = differed ? put_others(text, &v, most) : 0;

	if (!used) {
		text[0] = '\0';
		return false;
	}
	if (!most) {
		put(text, used, "; which of them is wrong cannot be told: no more than half agree");
		return true;
	}
	used = put(text, used, "; %d ranks in ", count_alike(&v, most));
	put_place(text, used, most);
	return true;
}

int mismatch_compare(struct communicator *c, const struct communicator_place *own, char text[MISMATCH_TEXT_SIZE])
{
	struct communicator_place *all = calloc((size_t)c->world, sizeof(*all));
	int rc;

	text[0] = '\0';
	if (!all) {
		snprintf(c->why, sizeof(c->why), "out of memory");
		return -ENOMEM;
	}
	all[c->rank] = *own;
	rc = communicator_gather(c, all, sizeof(*all));
	if (rc == 0)
		mismatch_find(all, c->world, text);
	free(all);
	return rc;
}
