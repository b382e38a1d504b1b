#include "format/arena/culprit.h"

#include "format/tensor/dtype.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int by_collective(const void *left, const void *right)
{
	const struct flight_view *a = &((const struct suspect *)left)->is, *b = &((const struct suspect *)right)->is;
	int c = compare(a->in_collective, b->in_collective);
	if (!c)
		c = compare(a->collective, b->collective);
	if (!c)
		c = compare(a->bytes, b->bytes);
	if (!c)
		c = compare(a->dtype, b->dtype);
	return c ? c : strcmp(a->op, b->op);
}

static int by_rank(const void *left, const void *right)
{
	return compare(((const struct suspect *)left)->rank, ((const struct suspect *)right)->rank);
}

static bool alike(const struct suspect *a, const struct suspect *b)
{
	return a->is.in_collective && !by_collective(a, b);
}

void culprit_count(struct suspect *all, uint32_t n)
{
	if (n) /* qsort wants memory, if of no length */
		qsort(all, n, sizeof(*all), by_collective);
	for (uint32_t from = 0, to = 0; from < n; from = to) {
		while (to < n && !by_collective(&all[from], &all[to]))
			to++;
		for (uint32_t i = from; i < to; i++)
			all[i].alike = all[i].is.in_collective ? to - from : 0;
	}
	if (n)
		qsort(all, n, sizeof(*all), by_rank);
}

static bool more_suspect(const struct suspect *a, const struct suspect *b)
{
	if (a->stopped != b->stopped)
		return a->stopped;
	if (a->is.in_collective != b->is.in_collective)
		return !a->is.in_collective;
	if (a->is.collective != b->is.collective) /* the one that they are in, or were in last */
		return a->is.collective < b->is.collective;
	if (a->alike != b->alike) /* 0 where they are in none */
		return a->alike < b->alike;
	if (a->is.step != b->is.step)
		return a->is.step < b->is.step;
	return a->is.beat_ns < b->is.beat_ns;
}

const struct suspect *culprit_find(const struct suspect *all, uint32_t n, uint64_t silent_ns)
{
	const struct suspect *worst = NULL;
	for (uint32_t i = 0; i < n; i++)
		if (all[i].is.beat_ns <= silent_ns && (!worst || more_suspect(&all[i], worst)))
			worst = &all[i];
	return worst;
}

bool culprit_stands_out(const struct suspect *all, uint32_t n, const struct suspect *culprit)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct flight_view *a = &all[i].is, *b = &culprit->is;
		bool same = alike(&all[i], culprit) || (!a->in_collective && !b->in_collective);
		if (!same || a->step != b->step || all[i].stopped != culprit->stopped)
			return true;
	}
	return false;
}

enum { WHERE_MAX = 112 };

static const char *where(char text[WHERE_MAX], const struct flight_view *is)
{
	if (is->in_collective)
		snprintf(text, WHERE_MAX, "in %s #%" PRIu64 " of %" PRIu64 " bytes%s%s", is->op, is->collective,
			 is->bytes, is->dtype ? " of " : "", is->dtype ? dtype_name((enum dtype)is->dtype) : "");
	else
		snprintf(text, WHERE_MAX, "in no collective");
	return text;
}

/* Whoever is in what most of the others are in; NULL: they are in none, or in the same as the culprit. */
static const struct suspect *most_others(const struct suspect *all, uint32_t n, const struct suspect *culprit,
					 uint32_t *count)
{
	const struct suspect *most = NULL;
	*count = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (&all[i] == culprit || all[i].alike <= *count)
			continue;
		most = &all[i];
		*count = all[i].alike;
	}
	return most && !alike(most, culprit) ? most : NULL;
}

const char *culprit_text(const struct suspect *all, uint32_t n, const struct suspect *culprit,
			 char dst[CULPRIT_TEXT_MAX])
{
	char own[WHERE_MAX], others[WHERE_MAX];
	uint32_t count;
	const struct suspect *most = most_others(all, n, culprit, &count);
	int len = snprintf(dst, CULPRIT_TEXT_MAX, "last at step %" PRIu64 "%s, %s", culprit->is.step,
			   culprit->stopped ? ", stopped" : "", where(own, &culprit->is));
	if (most && len >= 0 && len < CULPRIT_TEXT_MAX)
		snprintf(dst + len, CULPRIT_TEXT_MAX - (size_t)len, "; rank %u%s %s", most->rank,
			 count > 1 ? " and others are" : " is", where(others, &most->is));
	return dst;
}
