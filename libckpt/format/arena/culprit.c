#include "format/arena/culprit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool alike(const struct flight_view *a, const struct flight_view *b)
{
	return a->in_collective && b->in_collective && a->collective == b->collective && a->bytes == b->bytes &&
	       !strcmp(a->op, b->op);
}

/* Ranks that are in the same collective, itself included. */
static uint32_t count_alike(const struct suspect *all, uint32_t n, const struct flight_view *is)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < n; i++)
		count += alike(is, &all[i].is);
	return count;
}

static bool more_suspect(const struct suspect *all, uint32_t n, const struct suspect *a, const struct suspect *b)
{
	if (a->stopped != b->stopped)
		return a->stopped;
	if (a->is.in_collective != b->is.in_collective)
		return !a->is.in_collective;
	if (a->is.in_collective && a->is.collective != b->is.collective)
		return a->is.collective < b->is.collective;
	uint32_t like_a = count_alike(all, n, &a->is), like_b = count_alike(all, n, &b->is);
	if (a->is.in_collective && like_a != like_b)
		return like_a < like_b;
	if (a->is.step != b->is.step)
		return a->is.step < b->is.step;
	return a->is.beat_ns < b->is.beat_ns;
}

const struct suspect *culprit_find(const struct suspect *all, uint32_t n, uint64_t silent_ns)
{
	const struct suspect *worst = NULL;
	for (uint32_t i = 0; i < n; i++)
		if (all[i].is.beat_ns <= silent_ns && (!worst || more_suspect(all, n, &all[i], worst)))
			worst = &all[i];
	return worst;
}

bool culprit_stands_out(const struct suspect *all, uint32_t n, const struct suspect *culprit)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct flight_view *a = &all[i].is, *b = &culprit->is;
		bool same = alike(a, b) || (!a->in_collective && !b->in_collective);
		if (!same || a->step != b->step || all[i].stopped != culprit->stopped)
			return true;
	}
	return false;
}

static const char *where(char text[96], const struct flight_view *is)
{
	if (is->in_collective)
		snprintf(text, 96, "in %s #%" PRIu64 " of %" PRIu64 " bytes", is->op, is->collective, is->bytes);
	else
		snprintf(text, 96, "in no collective");
	return text;
}

/* Whoever is in what most of the others are in; NULL: they are in none, or in the same as the culprit. */
static const struct suspect *most_others(const struct suspect *all, uint32_t n, const struct suspect *culprit,
					 uint32_t *count)
{
	const struct suspect *most = NULL;
	*count = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t like = count_alike(all, n, &all[i].is);
		if (&all[i] == culprit || like <= *count)
			continue;
		most = &all[i];
		*count = like;
	}
	return most && !alike(&most->is, &culprit->is) ? most : NULL;
}

const char *culprit_text(const struct suspect *all, uint32_t n, const struct suspect *culprit,
			 char dst[CULPRIT_TEXT_MAX])
{
	char own[96], others[96];
	uint32_t count;
	const struct suspect *most = most_others(all, n, culprit, &count);
	int len = snprintf(dst, CULPRIT_TEXT_MAX, "last at step %" PRIu64 "%s, %s", culprit->is.step,
			   culprit->stopped ? ", stopped" : "", where(own, &culprit->is));
	if (most && len >= 0 && len < CULPRIT_TEXT_MAX)
		snprintf(dst + len, CULPRIT_TEXT_MAX - (size_t)len, "; rank %u%s %s", most->rank,
			 count > 1 ? " and others are" : " is", where(others, &most->is));
	return dst;
}
