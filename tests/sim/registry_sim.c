#include "registry_sim.h"

#include "base/clock.h"
#include "base/list.h"
#include "registry/registry.h"
#include "rng.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { NODES = 64, RECORDS = 64, MARGIN_PARTS = 10, SHORTER = 5, VALUE_MAX = 4096 };

struct item {
	char key[REGISTRY_KEY_MAX];
	uint8_t value[VALUE_MAX];
	size_t len;
	uint64_t created, changed, lease; /* created 0: it does not stand; lease 0: none */
};

/* What has happened, in order: the record as it was then. */
struct change {
	struct item item;
	uint64_t at_ns;
	bool gone;
};

struct call {
	struct list link;
	struct registry_compare compare[REGISTRY_CHANGES_MAX];
	struct registry_change change[REGISTRY_CHANGES_MAX];
	char keys[2 * REGISTRY_CHANGES_MAX][REGISTRY_KEY_MAX];
	uint8_t values[REGISTRY_CHANGES_MAX][VALUE_MAX];
	unsigned ncompare, nchange;
	uint64_t lease; /* ours when it was asked */
	uint64_t arrives_ns, answer_ns, deadline_ns;
	bool lost, muted, done, applied;
	uint64_t revision;
	registry_done *callback;
	void *arg;
};

struct registry {
	unsigned node;
	struct registry_config config;
	struct registry_events events;
	struct item mirror[RECORDS];
	unsigned nmirror;
	uint64_t at;   /* changes of the log that it has heard of */
	uint64_t upto; /* changes that it reads before it follows: all that there were then */
	bool synced, away, dead;
	uint64_t lease, until_ns; /* 0: none */
	uint64_t renew_ns;
	struct list calls;
	int fd; /* never ready: who simulates polls */
};

static struct {
	struct item items[RECORDS];
	unsigned nitems;
	struct change *log;
	uint64_t nlog, cap, revision, leases;
	uint64_t lease_until[NODES]; /* of the lease that each node has there */
	uint64_t lease[NODES];
	bool cut[NODES];
	struct registry *nodes[NODES];
	struct registry_faults faults;
	struct registry_sim_counts counts;
} sim;

void registry_sim_reset(void)
{
	for (unsigned n = 0; n < NODES; n++)
		SIM_CHECK(!sim.nodes[n], "node %u is still at the registry", n);
	free(sim.log);
	memset(&sim, 0, sizeof(sim));
	sim.revision = 1;
}

void registry_sim_faults(const struct registry_faults *faults)
{
	sim.faults = *faults;
}

void registry_sim_cut(unsigned node, bool cut)
{
	sim.cut[node] = cut;
}

void registry_sim_kill(unsigned node)
{
	if (sim.nodes[node])
		sim.nodes[node]->dead = true;
}

const struct registry_sim_counts *registry_sim_counts(void)
{
	return &sim.counts;
}

/* ---- what stands ----------------------------------------------------------------------------------------------- */

static struct item *find(struct item *items, unsigned n, const char *key)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(items[i].key, key))
			return &items[i];
	return NULL;
}

static struct item *item_of(const char *key)
{
	struct item *it = find(sim.items, sim.nitems, key);
	if (it)
		return it;
	SIM_CHECK(sim.nitems < RECORDS, "too many records");
	it = &sim.items[sim.nitems++];
	snprintf(it->key, sizeof(it->key), "%s", key);
	return it;
}

static void note(const struct item *it, bool gone)
{
	if (sim.nlog == sim.cap) {
		sim.cap = sim.cap ? 2 * sim.cap : 64;
		sim.log = realloc(sim.log, sim.cap * sizeof(*sim.log));
		SIM_CHECK(sim.log, "memory");
	}
	sim.log[sim.nlog++] = (struct change){
		.item = *it, .gone = gone, .at_ns = clock_now() + rng_below(world_rng(), sim.faults.delay_ns + 1)};
}

static void remove_item(struct item *it)
{
	it->changed = sim.revision;
	it->created = it->lease = 0;
	note(it, true);
}

static void end_lease(uint64_t lease)
{
	bool any = false;
	for (unsigned i = 0; i < sim.nitems; i++)
		any = any || (sim.items[i].created && sim.items[i].lease == lease);
	sim.revision += any;
	for (unsigned i = 0; any && i < sim.nitems; i++)
		if (sim.items[i].created && sim.items[i].lease == lease)
			remove_item(&sim.items[i]);
}

static void expire(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		if (!sim.lease[n] || clock_now() < sim.lease_until[n])
			continue;
		sim.counts.expired++;
		end_lease(sim.lease[n]);
		sim.lease[n] = 0;
	}
}

int registry_sim_coordinator(const char *job)
{
	char key[REGISTRY_KEY_MAX];
	snprintf(key, sizeof(key), "jobs/%s/coordinator", job);
	expire();
	const struct item *it = find(sim.items, sim.nitems, key);
	for (unsigned n = 0; it && it->created && n < NODES; n++)
		if (sim.lease[n] && sim.lease[n] == it->lease)
			return (int)n;
	return -1;
}

static bool holds(const struct registry_compare *c)
{
	const struct item *it = find(sim.items, sim.nitems, c->key);
	uint64_t is = !it || !it->created ? 0 : c->created ? it->created : it->changed;
	return is == c->revision;
}

static void apply(struct registry *r, struct call *call)
{
	bool leased = false;
	call->done = true;
	for (unsigned i = 0; i < call->nchange; i++)
		leased = leased || call->change[i].leased;
	call->applied = !leased || (sim.lease[r->node] && sim.lease[r->node] == call->lease);
	for (unsigned i = 0; i < call->ncompare; i++)
		call->applied = call->applied && holds(&call->compare[i]);
	sim.counts.applied += call->applied;
	sim.counts.refused += !call->applied;
	call->revision = sim.revision += call->applied;
	for (unsigned i = 0; call->applied && i < call->nchange; i++) {
		const struct registry_change *c = &call->change[i];
		struct item *it = item_of(c->key);
		if (!c->value && it->created) {
			remove_item(it);
		} else if (c->value) {
			memcpy(it->value, c->value, c->len);
			it->len = c->len;
			sim.counts.heirs += strstr(c->key, "/heir") != NULL;
			sim.counts.elections += !it->created && strstr(c->key, "/coordinator");
			it->created = it->created ? it->created : sim.revision;
			it->changed = sim.revision;
			it->lease = c->leased ? call->lease : 0;
			note(it, false);
		}
	}
}

void registry_sim_put(const char *key, const char *value)
{
	struct item *it = item_of(key);
	it->len = strlen(value);
	SIM_CHECK(it->len <= sizeof(it->value), "a value of %zu bytes", it->len);
	memcpy(it->value, value, it->len);
	it->created = it->changed = ++sim.revision;
	note(it, false);
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

static const char *keep(char to[REGISTRY_KEY_MAX], const char *key)
{
	snprintf(to, REGISTRY_KEY_MAX, "%s", key);
	return to;
}

int registry_commit(struct registry *r, const struct registry_compare *compare, unsigned ncompare,
		    const struct registry_change *change, unsigned nchange, registry_done *done, void *arg)
{
	for (unsigned i = 0; i < nchange; i++)
		if (change[i].leased && !r->lease)
			return -ENOLCK;
	struct call *call = calloc(1, sizeof(*call));
	SIM_CHECK(call && ncompare <= REGISTRY_CHANGES_MAX && nchange <= REGISTRY_CHANGES_MAX, "a transaction");
	*call = (struct call){
		.ncompare = ncompare, .nchange = nchange, .lease = r->lease, .callback = done, .arg = arg};
	for (unsigned i = 0; i < ncompare; i++) {
		call->compare[i] = compare[i];
		call->compare[i].key = keep(call->keys[i], compare[i].key);
	}
	for (unsigned i = 0; i < nchange; i++) {
		call->change[i] = change[i];
		call->change[i].key = keep(call->keys[REGISTRY_CHANGES_MAX + i], change[i].key);
		SIM_CHECK(change[i].len <= sizeof(call->values[i]), "a value of %zu bytes", change[i].len);
		if (change[i].value)
			call->change[i].value = memcpy(call->values[i], change[i].value, change[i].len);
	}
	call->arrives_ns = clock_now() + rng_below(world_rng(), sim.faults.delay_ns + 1);
	call->answer_ns = call->arrives_ns + rng_below(world_rng(), sim.faults.delay_ns + 1);
	call->deadline_ns = clock_deadline(r->config.timeout_ns);
	call->lost = rng_below(world_rng(), 1000) < sim.faults.lose;
	call->muted = rng_below(world_rng(), 1000) < sim.faults.mute;
	list_push(&r->calls, &call->link);
	return 0;
}

static void answer(struct call *call, int rc)
{
	struct registry_result result = {
		.rc = rc, .applied = !rc && call->applied, .revision = call->revision, .why = rc ? err_name(rc) : ""};
	list_remove(&call->link);
	call->callback(call->arg, &result);
	free(call);
}

/* What was sent before a cut may have arrived. */
static void go_on(struct registry *r)
{
	list_for_safe(it, &r->calls) {
		struct call *call = list_entry(it, struct call, link);
		if (!call->done && !call->lost && !sim.cut[r->node] && clock_now() >= call->arrives_ns)
			apply(r, call);
		if (call->done && !call->muted && !sim.cut[r->node] && clock_now() >= call->answer_ns)
			answer(call, 0);
		else if (clock_now() >= call->deadline_ns) {
			sim.counts.lost += !call->done;
			sim.counts.muted += call->done;
			answer(call, -ETIMEDOUT);
		}
	}
}

/* ---- the lease ------------------------------------------------------------------------------------------------- */

static void renew(struct registry *r)
{
	uint64_t now = clock_now(), ttl = r->config.lease_ns;
	bool reached = !sim.cut[r->node];
	expire();
	if (r->lease && (now >= r->until_ns || (reached && sim.lease[r->node] != r->lease))) {
		r->lease = r->until_ns = 0;
		sim.counts.lapsed++;
		r->events.lapsed(r->events.arg);
	}
	if (!reached || (r->lease && now < r->renew_ns))
		return;
	bool fresh = !r->lease;
	if (fresh && sim.lease[r->node]) { /* what was given up goes first */
		end_lease(sim.lease[r->node]);
		sim.lease[r->node] = 0;
	}
	if (fresh)
		r->lease = sim.lease[r->node] = ++sim.leases;
	sim.lease_until[r->node] = now + ttl;
	r->until_ns = now + ttl - ttl / MARGIN_PARTS;
	r->renew_ns = now + ttl / 3;
	if (fresh)
		r->events.leased(r->events.arg);
}

uint64_t registry_lease_until(const struct registry *r)
{
	return r->lease ? r->until_ns : 0;
}

/* ---- the mirror ------------------------------------------------------------------------------------------------ */

static struct registry_record record_of(const struct registry *r, const struct item *it)
{
	return (struct registry_record){.key = it->key,
					.value = it->value,
					.len = it->len,
					.created = it->created,
					.changed = it->changed,
					.ours = r->lease && it->lease == r->lease};
}

static void hear(struct registry *r, const struct change *change)
{
	struct item *it = find(r->mirror, r->nmirror, change->item.key);
	if (!it && change->gone)
		return;
	if (!it) {
		SIM_CHECK(r->nmirror < RECORDS, "too many records");
		it = &r->mirror[r->nmirror++];
	}
	*it = change->item;
	struct registry_record record = record_of(r, it);
	if (change->gone)
		record = (struct registry_record){.key = it->key, .changed = it->changed};
	if (change->gone)
		it->created = 0;
	r->events.record(r->events.arg, &record, change->gone);
}

static void follow(struct registry *r)
{
	if (sim.cut[r->node]) {
		if (!r->away)
			r->events.away(r->events.arg, "it is cut off");
		r->away = true;
		r->synced = false;
		r->upto = UINT64_MAX;
		return;
	}
	if (r->upto == UINT64_MAX)
		r->upto = sim.nlog;
	while (r->at < sim.nlog && clock_now() >= sim.log[r->at].at_ns)
		hear(r, &sim.log[r->at++]);
	if (!r->synced && r->at >= r->upto) {
		r->synced = true;
		r->away = false;
		r->events.synced(r->events.arg);
	}
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
	const struct item *it = find((struct item *)r->mirror, r->nmirror, key);
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

/* ---- life ------------------------------------------------------------------------------------------------------ */

int registry_new(const struct registry_config *config, const struct registry_events *events, struct registry **out,
		 struct err *err)
{
	unsigned node;
	SIM_CHECK(sscanf(config->url, "etcd://node:%u/sim", &node) == 1 && node < NODES && !sim.nodes[node],
		  "registry %s", config->url);
	struct registry *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "no memory");
	*r = (struct registry){.node = node, .config = *config, .events = *events, .upto = UINT64_MAX};
	r->config.lease_ns /= SHORTER; /* as short against the run as it is in a long one */
	r->config.timeout_ns /= SHORTER;
	list_init(&r->calls);
	r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	SIM_CHECK(r->fd >= 0, "no descriptor");
	sim.nodes[node] = r;
	*out = r;
	return 0;
}

int registry_prefix(const char *url, char out[REGISTRY_PREFIX_MAX], struct err *err)
{
	(void)url, (void)err;
	snprintf(out, REGISTRY_PREFIX_MAX, "/sim/");
	return 0;
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	list_for_safe(it, &r->calls)
		answer(list_entry(it, struct call, link), -ESHUTDOWN);
	if (!r->dead && r->lease && !sim.cut[r->node] && sim.lease[r->node] == r->lease) {
		end_lease(r->lease);
		sim.lease[r->node] = 0;
	}
	sim.nodes[r->node] = NULL;
	close(r->fd);
	free(r);
}

struct registry_counts registry_counts(const struct registry *r)
{
	(void)r;
	return (struct registry_counts){0};
}

int registry_event_fd(const struct registry *r)
{
	return r->fd;
}

void registry_poll(struct registry *r)
{
	SIM_CHECK(!r->dead, "node %u is dead and polls", r->node);
	renew(r);
	follow(r);
	go_on(r);
}
