#include "registry/lease_private.h"

#include "base/bytes.h"
#include "base/clock.h"

enum { PARTS = 3, MARGIN_PART = 10, MARGIN_MIN_MS = 200, GAP_MIN_MS = 100, GAP_MAX_MS = 1000 };

struct lease lease_begin(uint64_t lease_ns)
{
	return (struct lease){.ttl_s = div_up(lease_ns, CLOCK_NS_PER_S)};
}

uint64_t lease_margin(uint64_t ttl_ns)
{
	return max_u64(ttl_ns / MARGIN_PART, MARGIN_MIN_MS * CLOCK_NS_PER_MS);
}

enum lease_want lease_wants(const struct lease *l, uint64_t now)
{
	static const enum lease_want wants[] = {
		[LEASE_NONE] = LEASE_GRANT, [LEASE_HELD] = LEASE_RENEW, [LEASE_ENDED] = LEASE_REVOKE};
	return l->asked || now < l->due ? LEASE_REST : wants[l->state];
}

uint64_t lease_next(const struct lease *l)
{
	uint64_t ask = l->asked ? UINT64_MAX : l->due;
	return l->state == LEASE_HELD ? min_u64(ask, l->until) : ask;
}

void lease_ask(struct lease *l, uint64_t id)
{
	l->asked = true;
	l->id = id;
}

static void set_state(struct lease *l, enum lease_state state, uint64_t due)
{
	l->state = state;
	l->due = due;
	l->asked = false;
	if (state == LEASE_NONE)
		l->id = 0;
}

uint64_t lease_left(const struct lease *l, uint64_t now)
{
	return l->state == LEASE_HELD && now < l->until ? l->until - now : 0;
}

bool lease_lost(struct lease *l, uint64_t now)
{
	if (l->state != LEASE_HELD)
		return false;
	l->gap = 0;
	set_state(l, LEASE_ENDED, now);
	return true;
}

bool lease_look(struct lease *l, uint64_t now)
{
	return l->state == LEASE_HELD && now >= l->until && lease_lost(l, now);
}

/* Whether the answer is about what was asked last. */
static bool is_expected(const struct lease *l, uint64_t id)
{
	return l->asked && l->id == id;
}

static void pause_before_next(struct lease *l, uint64_t now)
{
	l->gap = min_u64(max_u64(2 * l->gap, GAP_MIN_MS * CLOCK_NS_PER_MS), GAP_MAX_MS * CLOCK_NS_PER_MS);
	l->due = now + l->gap;
}

bool lease_answered(struct lease *l, uint64_t id, uint64_t ttl_ns, uint64_t sent, uint64_t now)
{
	uint64_t until = sent + ttl_ns - min_u64(ttl_ns, lease_margin(ttl_ns));
	bool granted = l->state == LEASE_NONE;
	if (!is_expected(l, id) || l->state == LEASE_ENDED)
		return false;
	if (until <= now) {
		lease_failed(l, id, now); /* it came too late; a renewal may yet be in time */
		return false;
	}
	l->gap = 0;
	l->until = until;
	set_state(l, LEASE_HELD, sent + ttl_ns / PARTS);
	return granted;
}

void lease_revoked(struct lease *l, uint64_t id, uint64_t now)
{
	if (!is_expected(l, id) || l->state != LEASE_ENDED)
		return;
	l->gap = 0;
	set_state(l, LEASE_NONE, now);
}

void lease_failed(struct lease *l, uint64_t id, uint64_t now)
{
	if (!is_expected(l, id))
		return;
	pause_before_next(l, now);
	/* A grant may have been made all the same: its lease is revoked before the next one. */
	set_state(l, l->state == LEASE_NONE ? LEASE_ENDED : l->state, l->due);
}
