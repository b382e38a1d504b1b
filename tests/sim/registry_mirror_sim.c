/* What a node knows of the simulated registry: each change, late and in the order of revisions; after an outage what differs from what it was told, in the order of
 * keys, as the daemon's (ckptd/registry/follow.c). */
#include "registry_sim_private.h"

#include "base/clock.h"
#include "rng.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

#define sim registry_sim

enum { TRIES = 3 };

struct item *item_find(struct item *items, unsigned n, const char *key)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(items[i].key, key))
			return &items[i];
	return NULL;
}

static bool is_held(const struct registry *r, const struct item *it)
{
	return it->lease && r->lease.state == LEASE_HELD && it->lease == r->lease.id;
}

static struct registry_record record_of(const struct registry *r, const struct item *it)
{
	return (struct registry_record){.key = it->key,
					.value = it->value,
					.len = it->len,
					.created = it->created,
					.changed = it->changed,
					.ours = is_held(r, it)};
}

/* revision: of the deletion, or 0 where that is not known. */
static void hear_gone(struct registry *r, const char *key, uint64_t revision)
{
	struct item *it = item_find(r->mirror, r->nmirror, key);
	if (!it || !it->created)
		return;
	it->created = 0;
	struct registry_record record = {.key = it->key, .changed = revision};
	r->events.record(r->events.arg, &record, true);
}

static void hear_put(struct registry *r, const struct item *is)
{
	struct item *it = item_find(r->mirror, r->nmirror, is->key);
	if (it && it->created && it->changed == is->changed)
		return;
	if (!it) {
		SIM_CHECK(r->nmirror < RECORDS, "too many records");
		it = &r->mirror[r->nmirror++];
	}
	*it = *is;
	struct registry_record record = record_of(r, it);
	r->events.record(r->events.arg, &record, false);
}

static int by_key(const void *a, const void *b)
{
	const struct change *const *x = a, *const *y = b;
	return strcmp((*x)->item.key, (*y)->item.key);
}

/* The last change of each record among those that it has not heard of, in the order of keys. */
static unsigned differences(const struct registry *r, const struct change *last[RECORDS])
{
	unsigned n = 0;
	for (uint64_t at = r->at; at < r->upto; at++) {
		unsigned i = 0;
		while (i < n && strcmp(last[i]->item.key, sim.log[at].item.key) != 0)
			i++;
		SIM_CHECK(i < RECORDS, "too many records");
		n += i == n;
		last[i] = &sim.log[at];
	}
	qsort(last, n, sizeof(last[0]), by_key);
	return n;
}

static void read_all(struct registry *r)
{
	const struct change *last[RECORDS];
	unsigned n = differences(r, last);
	for (unsigned i = 0; i < n; i++)
		if (!last[i]->gone)
			hear_put(r, &last[i]->item);
	for (unsigned i = 0; i < n; i++)
		if (last[i]->gone)
			hear_gone(r, last[i]->item.key, 0);
	r->at = r->upto;
	r->upto = UINT64_MAX;
}

static void be_cut_off(struct registry *r)
{
	uint64_t now = clock_now();
	r->trouble_ns = r->trouble_ns ? r->trouble_ns : now;
	r->upto = UINT64_MAX;
	if (r->away || now < r->trouble_ns + r->config.timeout_ns)
		return;
	r->away = true;
	r->synced = false;
	sim.counts.outages++;
	r->events.away(r->events.arg, "it is cut off");
}

/* At first, and when the watch has broken. */
static bool has_to_read(const struct registry *r)
{
	return !r->synced || (r->trouble_ns && clock_now() - r->trouble_ns >= r->config.timeout_ns / TRIES);
}

static void begin_to_read(struct registry *r)
{
	r->upto = sim.nlog;
	r->read_ns = clock_now() + registry_delay();
}

/* The next change has come; to this node it may come later than to others. */
static bool has_come(struct registry *r)
{
	if (r->at == sim.nlog || clock_now() < sim.log[r->at].at_ns)
		return false;
	if (r->held != r->at && registry_chance(sim.faults.slow))
		r->held_ns = clock_now() + rng_below(&sim.rng, sim.faults.slow_ns + 1);
	r->held = r->at;
	return clock_now() >= r->held_ns;
}

static void watch(struct registry *r)
{
	while (has_come(r)) {
		const struct change *c = &sim.log[r->at++];
		if (c->gone)
			hear_gone(r, c->item.key, c->item.changed);
		else
			hear_put(r, &c->item);
	}
}

void mirror_follow(struct registry *r)
{
	if (sim.cut[r->node]) {
		be_cut_off(r);
		return;
	}
	if (r->upto == UINT64_MAX && has_to_read(r))
		begin_to_read(r);
	if (r->upto != UINT64_MAX && clock_now() < r->read_ns)
		return;
	if (r->upto != UINT64_MAX)
		read_all(r);
	r->trouble_ns = 0;
	watch(r);
	if (r->synced)
		return;
	r->synced = true;
	r->away = false;
	r->events.synced(r->events.arg);
}

bool registry_is_synced(const struct registry *r)
{
	return r->synced;
}

uint64_t registry_revision(const struct registry *r)
{
	return r->at < sim.nlog ? sim.log[r->at].item.changed - 1 : sim.revision;
}

bool registry_get(const struct registry *r, const char *key, struct registry_record *record)
{
	const struct item *it = item_find((struct item *)r->mirror, r->nmirror, key);
	if (!it || !it->created)
		return false;
	*record = record_of(r, it);
	return true;
}

bool registry_next(const struct registry *r, const char *prefix, const void **at, struct registry_record *record)
{
	const struct item *best = NULL, *last = *at;
	for (unsigned i = 0; i < r->nmirror; i++) {
		const struct item *it = &r->mirror[i];
		if (it->created && !strncmp(it->key, prefix, strlen(prefix)) &&
		    (!last || strcmp(it->key, last->key) > 0) && (!best || strcmp(it->key, best->key) < 0))
			best = it;
	}
	*at = best;
	if (best)
		*record = record_of(r, best);
	return best;
}
