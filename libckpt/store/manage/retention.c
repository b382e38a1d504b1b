#include "store/manage/retention.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define HOUR_NS (3600 * CLOCK_NS_PER_S)
#define DAY_NS (24 * HOUR_NS)

static bool no_rule(const struct retention_policy *p)
{
	return !p->keep_last && !p->keep_every && !p->keep_within_ns && !p->keep_hourly && !p->keep_daily;
}

static unsigned protection(const struct retention_item *item)
{
	return (item->pinned ? RETENTION_PINNED : 0) | (item->tagged ? RETENTION_TAGGED : 0) |
	       (item->in_use ? RETENTION_IN_USE : 0);
}

/* A clock that was set back makes times of the future: they are kept. */
static bool within(const struct retention_item *item, uint64_t end, uint64_t ns)
{
	return item->committed_ns >= end || end - item->committed_ns <= ns;
}

/* The time before which keep_within counts: what is committed tells it, so that a clock that is ahead makes nothing old. */
static uint64_t newest_commit(const struct retention_item *items, size_t n, uint64_t now)
{
	uint64_t newest = 0;
	for (size_t i = 0; i < n; i++)
		if (!items[i].damaged)
			newest = max_u64(newest, items[i].committed_ns);
	return min_u64(newest, now);
}

/* The newest of some. */
static void keep_newest_that(struct retention_item *items, size_t n, bool (*is)(const struct retention_item *item),
			     bool with_given_up, unsigned reason)
{
	for (size_t i = n; i-- > 0;)
		if (is(&items[i]) && (with_given_up || !items[i].given_up)) {
			items[i].keep |= reason;
			return;
		}
}

static bool is_any(const struct retention_item *item)
{
	(void)item;
	return true;
}

static bool is_verified(const struct retention_item *item)
{
	return item->verified && !item->damaged;
}

static bool is_healthy(const struct retention_item *item)
{
	return item->healthy && !item->damaged;
}

static void keep_last(struct retention_item *items, size_t n, uint32_t count, bool with_given_up)
{
	for (size_t i = n; i-- > 0 && count;)
		if (!items[i].damaged && (with_given_up || !items[i].given_up)) {
			items[i].keep |= RETENTION_LAST;
			count--;
		}
}

/* What a job goes on from. */
static void keep_newest(struct retention_item *items, size_t n, uint32_t last, bool with_given_up)
{
	keep_newest_that(items, n, is_any, with_given_up, RETENTION_NEWEST);
	keep_newest_that(items, n, is_verified, with_given_up, RETENTION_VERIFIED);
	keep_newest_that(items, n, is_healthy, with_given_up, RETENTION_HEALTHY);
	keep_last(items, n, last, with_given_up);
}

/* Epochs come in ascending order, each a rising sequence of steps: a later item of the same step is of a later epoch. */
static bool later_epoch_has(const struct retention_item *items, size_t n, size_t at)
{
	for (size_t i = at + 1; i < n; i++)
		if (items[i].id.step == items[at].id.step && !items[i].damaged)
			return true;
	return false;
}

static void keep_every(struct retention_item *items, size_t n, uint64_t steps)
{
	for (size_t i = 0; steps && i < n; i++)
		if (!items[i].damaged && items[i].id.step % steps == 0 && !later_epoch_has(items, n, i))
			items[i].keep |= RETENTION_EVERY;
}

static void keep_within(struct retention_item *items, size_t n, uint64_t now, uint64_t ns)
{
	uint64_t end = newest_commit(items, n, now);
	for (size_t i = 0; ns && i < n; i++)
		if (!items[i].damaged && within(&items[i], end, ns))
			items[i].keep |= RETENTION_WITHIN;
}

/* Times may jump among neighbours (a clock that was set): a period is the one before only if it is the same number. */
static void keep_periods(struct retention_item *items, size_t n, uint64_t period_ns, uint32_t count, unsigned reason)
{
	uint64_t last = UINT64_MAX;
	for (size_t i = n; i-- > 0 && count;) {
		uint64_t period = items[i].committed_ns / period_ns;
		if (items[i].damaged || period == last)
			continue;
		items[i].keep |= reason;
		last = period;
		count--;
	}
}

/* Of the first n, which end where a run began, what retention would keep of them at the least. */
static void keep_earlier(struct retention_item *items, size_t n, uint32_t count)
{
	bool verified = false, healthy = false;
	for (size_t i = n; i-- > 0;) {
		struct retention_item *item = &items[i];
		if (item->damaged)
			continue;
		if (count || (item->verified && !verified) || (item->healthy && !healthy))
			item->keep |= RETENTION_EARLIER;
		count -= count > 0;
		verified |= item->verified;
		healthy |= item->healthy;
	}
}

/* The epoch in which the run of it began without a restore, or may have begun. 0: it did not. */
static uint32_t run_of(const struct retention_item *item)
{
	return item->unreadable ? item->id.epoch : item->began;
}

/* Each run that began without a restore, at the newest item that tells so, which stays because of what is before it. */
static void keep_runs(struct retention_item *items, size_t n, uint32_t count)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t began = run_of(&items[i]);
		bool newest = began;
		size_t before = 0;
		for (size_t k = i + 1; k < n && newest; k++)
			newest = run_of(&items[k]) != began;
		while (newest && before < i && items[before].id.epoch < began)
			before++;
		if (!before)
			continue;
		items[i].keep |= RETENTION_BEGAN;
		keep_earlier(items, before, count ? count : 1);
	}
}

size_t retention_apply(const struct retention_policy *p, uint64_t now, struct retention_item *items, size_t n)
{
	if (!n)
		return 0;
	for (size_t i = 0; i < n; i++)
		items[i].keep = protection(&items[i]) | (no_rule(p) ? RETENTION_NO_RULE : 0);
	keep_newest(items, n, p->keep_last, true);
	keep_newest(items, n, p->keep_last, false);
	keep_every(items, n, p->keep_every);
	keep_within(items, n, now, p->keep_within_ns);
	keep_periods(items, n, HOUR_NS, p->keep_hourly, RETENTION_HOURLY);
	keep_periods(items, n, DAY_NS, p->keep_daily, RETENTION_DAILY);
	if (!p->give_up_runs)
		keep_runs(items, n, p->keep_last);
	size_t go = 0;
	for (size_t i = 0; i < n; i++)
		go += !items[i].keep;
	return go;
}

void retention_text(unsigned keep, char dst[RETENTION_TEXT_MAX])
{
	static const char *const words[] = {
		"no rule", "pinned", "tagged", "in use", "newest",         "newest verified", "last",
		"every",   "within", "hourly", "daily",  "newest healthy", "earlier run",     "begin of a run"};
	size_t len = 0;
	dst[0] = '\0';
	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (keep & 1u << i)
			len += (size_t)snprintf(dst + len, RETENTION_TEXT_MAX - len, "%s%s", len ? ", " : "", words[i]);
}
