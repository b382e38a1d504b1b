#include "machine/peer_check.h"

#include "base/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its place, an empty one, or that of the one who has answered before all others. */
static struct known_peer *place(struct peer_check *p, const char *name)
{
	struct known_peer *oldest = p->peers;
	for (unsigned i = 0; i < PEER_CHECK_MAX; i++) {
		struct known_peer *a = &p->peers[i];
		if (!strcmp(a->name, name))
			return a;
		if (a->at_ns < oldest->at_ns)
			oldest = a;
	}
	*oldest = (struct known_peer){.n = 0};
	snprintf(oldest->name, sizeof(oldest->name), "%s", name);
	return oldest;
}

void peer_check_take(struct peer_check *p, uint64_t now, const char *name, uint64_t trip_ns, int64_t ahead_ns)
{
	struct known_peer *a = place(p, name);
	a->at_ns = now;
	a->trips[a->n++ % PEER_CHECK_ROW] = a->trip_ns = trip_ns;
	a->ahead_ns = ahead_ns;
}

void peer_check_forget(struct peer_check *p, uint64_t since)
{
	for (unsigned i = 0; i < PEER_CHECK_MAX; i++)
		if (p->peers[i].at_ns < since)
			p->peers[i] = (struct known_peer){.n = 0};
}

static int by_offset(const void *a, const void *b)
{
	const struct known_peer *const *x = a, *const *y = b;
	return ((*x)->ahead_ns > (*y)->ahead_ns) - ((*x)->ahead_ns < (*y)->ahead_ns);
}

static uint64_t size_of(int64_t offset_ns)
{
	return offset_ns < 0 ? -(uint64_t)offset_ns : (uint64_t)offset_ns;
}

struct clock_check peer_check_clock(const struct peer_check *p)
{
	const struct known_peer *sorted[PEER_CHECK_MAX];
	struct clock_check check = {.n = 0};
	for (unsigned i = 0; i < PEER_CHECK_MAX; i++)
		if (*p->peers[i].name)
			sorted[check.n++] = &p->peers[i];
	if (!check.n)
		return check;
	qsort(sorted, check.n, sizeof(*sorted), by_offset);
	const struct known_peer *low = sorted[(check.n - 1) / 2], *high = sorted[check.n / 2];
	const struct known_peer *median = size_of(low->ahead_ns) < size_of(high->ahead_ns) ? low : high;
	check.ahead_ns = -median->ahead_ns;
	check.uncertain_ns = median->trip_ns / 2;
	return check;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static bool has_row(const struct known_peer *a)
{
	return a->n >= PEER_CHECK_ROW;
}

static uint64_t shortest(const struct known_peer *a)
{
	uint64_t least = UINT64_MAX;
	for (uint32_t i = 0; i < PEER_CHECK_ROW && i < a->n; i++)
		least = min_u64(least, a->trips[i]);
	return least;
}

/* Not the shortest: peers answer one after another. While a link becomes slow or fast again, some have answered once more than others. */
static uint64_t middle(const struct known_peer *a)
{
	uint64_t trips[PEER_CHECK_ROW];
	memcpy(trips, a->trips, sizeof(trips));
	qsort(trips, PEER_CHECK_ROW, sizeof(*trips), by_size);
	return trips[PEER_CHECK_ROW / 2];
}

/* Of all that have answered often enough but one; of two in the middle the longer one. 0: there is none. */
static uint64_t median_of_others(const struct peer_check *p, unsigned but)
{
	uint64_t trips[PEER_CHECK_MAX];
	unsigned n = 0;
	for (unsigned i = 0; i < PEER_CHECK_MAX; i++)
		if (i != but && has_row(&p->peers[i]))
			trips[n++] = middle(&p->peers[i]);
	qsort(trips, n, sizeof(*trips), by_size);
	return n ? trips[n / 2] : 0;
}

bool peer_check_is_far(const struct peer_check *p, unsigned i, uint64_t *trip_ns, uint64_t *others_ns)
{
	if (!has_row(&p->peers[i]) || !(*others_ns = median_of_others(p, i)) || *others_ns > PEER_CHECK_FAR_NS)
		return false;
	*trip_ns = shortest(&p->peers[i]);
	return *trip_ns > PEER_CHECK_FAR_NS && *trip_ns / PEER_CHECK_FAR > *others_ns;
}

unsigned peer_check_far_from(const struct peer_check *p, uint64_t *least_ns)
{
	unsigned n = 0;
	*least_ns = UINT64_MAX;
	for (unsigned i = 0; i < PEER_CHECK_MAX; i++) {
		n += has_row(&p->peers[i]);
		*least_ns = min_u64(*least_ns, shortest(&p->peers[i]));
	}
	return n >= PEER_CHECK_ALL && *least_ns > PEER_CHECK_FAR_NS ? n : 0;
}
