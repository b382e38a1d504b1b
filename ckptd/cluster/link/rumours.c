#include "cluster/link/rumours.h"

#include "base/clock.h"

#include <errno.h>

void rumour_encode(const struct rumour *rumour, struct wbuf *out)
{
	wbuf_u32(out, rumour->node);
	wbuf_u32(out, rumour->by);
	wbuf_u32(out, rumour->ms);
	wbuf_u32(out, rumour->hops);
}

int rumour_decode(const void *body, size_t len, struct rumour *out)
{
	struct rbuf r = rbuf_of(body, len);
	out->node = rbuf_u32(&r);
	out->by = rbuf_u32(&r);
	out->ms = rbuf_u32(&r);
	out->hops = rbuf_u32(&r);
	return rbuf_finish(&r) ? -EBADMSG : 0;
}

static uint64_t time_of(const struct rumour *rumour, uint64_t now)
{
	return now - min_u64(now - 1, rumour->ms * CLOCK_NS_PER_MS);
}

/* On its way a rumour seems to become younger. */
static bool is_same(uint64_t known, uint64_t at, uint64_t within)
{
	return known && at < known + within;
}

/* That of the same node, else the oldest. */
static unsigned slot_of(const struct rumours *r, uint32_t by)
{
	unsigned oldest = 0;
	for (unsigned i = 0; i < RUMOUR_DOUBTS; i++) {
		if (r->doubts[i].at && r->doubts[i].by == by)
			return i;
		if (r->doubts[i].at < r->doubts[oldest].at)
			oldest = i;
	}
	return oldest;
}

bool rumours_doubt(struct rumours *r, const struct rumour *rumour, uint64_t limit, uint64_t now)
{
	uint64_t at = time_of(rumour, now);
	unsigned slot = slot_of(r, rumour->by);
	if (is_same(r->doubts[slot].at, at, limit)) /* by this node, or by two others, who are enough */
		return false;
	r->doubts[slot].by = rumour->by;
	r->doubts[slot].at = at;
	return true;
}

bool rumours_lost(struct rumours *r, const struct rumour *rumour, uint64_t now)
{
	uint64_t at = time_of(rumour, now);
	if (is_same(r->lost_at, at, RUMOUR_FRESH_S * CLOCK_NS_PER_S))
		return false;
	r->lost_at = at;
	return true;
}

bool rumours_fresh(const struct rumours *r, struct rumour *out, uint64_t now)
{
	if (!is_same(r->lost_at, now, RUMOUR_FRESH_S * CLOCK_NS_PER_S))
		return false;
	out->ms = (uint32_t)((now - r->lost_at) / CLOCK_NS_PER_MS);
	return true;
}
