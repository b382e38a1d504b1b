#include "ledger.h"

#include "base/bytes.h"
#include "base/clock.h"

enum { PAUSE_FIRST_MS = 100, PAUSE_MAX_MS = 30000 };

int ledger_memory(const struct ledger *l, const char *user, uint64_t bytes, struct err *err)
{
	char a[16], b[16], c[16];
	if (l->user && bytes > l->user)
		return err_set(err, -ENOMEM,
			       "user %s would hold %s, their limit is %s: raise memory-limit of [user %s]", user,
			       bytes_human(a, sizeof(a), bytes), bytes_human(b, sizeof(b), l->user), user);
	uint64_t left = l->node > l->others ? l->node - l->others : 0;
	if (bytes <= left)
		return 0;
	return err_set(err, -ENOMEM,
		       "user %s would hold %s; other users hold %s of the node's %s: raise --memory-limit", user,
		       bytes_human(a, sizeof(a), bytes), bytes_human(b, sizeof(b), l->others),
		       bytes_human(c, sizeof(c), l->node));
}

uint64_t ledger_bandwidth(uint64_t node, uint64_t user, unsigned users)
{
	uint64_t part = node ? max_u64(node / (users ? users : 1), 1) : 0;
	return part && user ? min_u64(part, user) : part ? part : user;
}

uint64_t ledger_pause_ns(unsigned failures)
{
	uint64_t ms = failures < 16 ? (uint64_t)PAUSE_FIRST_MS << failures : PAUSE_MAX_MS;
	return min_u64(ms, PAUSE_MAX_MS) * CLOCK_NS_PER_MS;
}

bool ledger_pace(uint64_t *paid_ns, uint64_t now, unsigned per_s, unsigned burst)
{
	uint64_t cost = CLOCK_NS_PER_S / per_s, credit = burst * cost;
	if (*paid_ns > now)
		return false;
	*paid_ns = max_u64(*paid_ns, now > credit ? now - credit : 0) + cost;
	return true;
}
