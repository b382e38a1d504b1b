#include "registry_sim_private.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "rng.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct registry_sim registry_sim;
#define sim registry_sim

static void request_free(struct request *q)
{
	free(q->transaction);
	free(q);
}

void registry_sim_reset(uint64_t seed)
{
	for (unsigned n = 0; n < NODES; n++)
		SIM_CHECK(!sim.nodes[n], "node %u is still at the registry", n);
	if (sim.revision)
		list_for_safe(it, &sim.flying)
			request_free(list_entry(it, struct request, flying));
	free(sim.log);
	memset(&sim, 0, sizeof(sim));
	list_init(&sim.flying);
	sim.revision = 1;
	sim.rng = mix64(~seed);
}

void registry_sim_faults(const struct registry_faults *faults)
{
	sim.faults = *faults;
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

bool registry_chance(unsigned per_thousand)
{
	return rng_below(&sim.rng, 1000) < per_thousand;
}

uint64_t registry_delay(void)
{
	bool slow = registry_chance(sim.faults.slow);
	return rng_below(&sim.rng, (slow ? sim.faults.slow_ns : sim.faults.delay_ns) + 1);
}

/* ---- what stands ----------------------------------------------------------------------------------------------- */

static struct item *item_of(const char *key)
{
	struct item *it = item_find(sim.items, sim.nitems, key);
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
		.item = *it, .gone = gone, .at_ns = clock_now() + rng_below(&sim.rng, sim.faults.delay_ns + 1)};
}

static void remove_item(struct item *it)
{
	it->changed = sim.revision;
	it->created = it->lease = 0;
	note(it, true);
}

void registry_drop(uint64_t lease)
{
	bool any = false;
	for (unsigned i = 0; i < sim.nitems; i++)
		any = any || (sim.items[i].created && sim.items[i].lease == lease);
	sim.revision += any;
	for (unsigned i = 0; any && i < sim.nitems; i++)
		if (sim.items[i].created && sim.items[i].lease == lease)
			remove_item(&sim.items[i]);
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

static bool holds(const struct registry_compare *c)
{
	const struct item *it = item_find(sim.items, sim.nitems, c->key);
	uint64_t is = !it || !it->created ? 0 : c->created ? it->created : it->changed;
	return is == c->revision;
}

static void change(const struct registry_change *c, uint64_t lease)
{
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
		it->lease = c->leased ? lease : 0;
		note(it, false);
	}
}

static void apply(struct request *q)
{
	const struct transaction *t = q->transaction;
	q->ended = q->lease && !lease_stands(q->lease);
	q->applied = !q->ended;
	for (unsigned i = 0; i < t->ncompare; i++)
		q->applied = q->applied && holds(&t->compare[i]);
	sim.counts.applied += q->applied;
	sim.counts.refused += !q->applied;
	sim.counts.late += q->applied && !q->waits;
	q->revision = sim.revision += q->applied;
	for (unsigned i = 0; q->applied && i < t->nchange; i++)
		change(&t->change[i], q->lease);
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

struct request *request_new(struct registry *r, uint64_t deadline_ns)
{
	struct request *q = calloc(1, sizeof(*q));
	SIM_CHECK(q, "memory");
	*q = (struct request){.node = r->node, .waits = true, .sent_ns = clock_now(), .deadline_ns = deadline_ns};
	q->arrives_ns = q->sent_ns + registry_delay();
	q->answer_ns = q->arrives_ns + registry_delay();
	q->flies = !registry_chance(sim.faults.lose);
	q->muted = registry_chance(sim.faults.mute);
	list_push(&r->requests, &q->waiting);
	if (q->flies)
		list_push(&sim.flying, &q->flying);
	return q;
}

static void land(struct request *q)
{
	q->flies = false;
	list_remove(&q->flying);
	if (!q->waits)
		request_free(q);
}

void request_leave(struct request *q)
{
	q->waits = false;
	list_remove(&q->waiting);
	if (!q->flies)
		request_free(q);
}

/* The first that gets there until then. What meets a cut gets there after that, as long as somebody waits for it. */
static struct request *next_request(uint64_t until_ns)
{
	struct request *first = NULL;
	list_for_safe(it, &sim.flying) {
		struct request *q = list_entry(it, struct request, flying);
		if (q->arrives_ns > until_ns)
			continue;
		if (sim.cut[q->node] && !q->waits)
			land(q);
		else if (!sim.cut[q->node] && (!first || q->arrives_ns < first->arrives_ns))
			first = q;
	}
	return first;
}

/* All that has happened there until now, in order, whether or not any node has looked. */
static void go_on(void)
{
	uint64_t now = clock_now();
	for (;;) {
		struct standing_lease *l = lease_to_end(now);
		struct request *q = next_request(l ? l->ends_ns : now);
		if (q) {
			q->done = true;
			if (q->transaction)
				apply(q);
			else
				lease_serve(q, q->arrives_ns);
			land(q);
		} else if (l) {
			lease_end(l);
		} else {
			return;
		}
	}
}

void registry_sim_cut(unsigned node, bool cut)
{
	go_on();
	if (sim.cut[node] && !cut)
		list_for(it, &sim.flying) {
			struct request *q = list_entry(it, struct request, flying);
			if (q->node == node)
				q->arrives_ns = max_u64(q->arrives_ns, clock_now());
		}
	sim.cut[node] = cut;
}

static void finish(struct registry *r, struct request *q, int rc)
{
	if (q->transaction) {
		struct registry_result result = {.rc = rc,
						 .applied = !rc && q->applied,
						 .revision = rc ? 0 : q->revision,
						 .why = rc ? err_name(rc) : ""};
		q->transaction->callback(q->transaction->arg, &result);
	} else if (rc != -ESHUTDOWN) {
		lease_hear(r, q, rc != 0);
	}
	request_leave(q);
}

static void hear(struct registry *r)
{
	list_for_safe(it, &r->requests) {
		struct request *q = list_entry(it, struct request, waiting);
		if (q->done && !q->muted && !sim.cut[r->node] && clock_now() >= q->answer_ns) {
			if (q->transaction && q->ended)
				lease_is_over(r, q->lease);
			finish(r, q, q->transaction && q->ended ? -ESTALE : 0);
		} else if (clock_now() >= q->deadline_ns) {
			sim.counts.lost += q->transaction && !q->done;
			sim.counts.muted += q->transaction && q->done;
			finish(r, q, -ETIMEDOUT);
		}
	}
}

static const char *keep(char to[REGISTRY_KEY_MAX], const char *key)
{
	snprintf(to, REGISTRY_KEY_MAX, "%s", key);
	return to;
}

static struct transaction *copy(const struct registry_compare *compare, unsigned ncompare,
				const struct registry_change *change, unsigned nchange)
{
	struct transaction *t = calloc(1, sizeof(*t));
	SIM_CHECK(t && ncompare <= REGISTRY_CHANGES_MAX && nchange <= REGISTRY_CHANGES_MAX, "a transaction");
	t->ncompare = ncompare;
	t->nchange = nchange;
	for (unsigned i = 0; i < ncompare; i++) {
		t->compare[i] = compare[i];
		t->compare[i].key = keep(t->keys[i], compare[i].key);
	}
	for (unsigned i = 0; i < nchange; i++) {
		t->change[i] = change[i];
		t->change[i].key = keep(t->keys[REGISTRY_CHANGES_MAX + i], change[i].key);
		SIM_CHECK(change[i].len <= sizeof(t->values[i]), "a value of %zu bytes", change[i].len);
		if (change[i].value)
			t->change[i].value = memcpy(t->values[i], change[i].value, change[i].len);
	}
	return t;
}

int registry_commit(struct registry *r, const struct registry_compare *compare, unsigned ncompare,
		    const struct registry_change *change, unsigned nchange, registry_done *done, void *arg)
{
	bool leased = false;
	for (unsigned i = 0; i < nchange; i++)
		leased = leased || (change[i].value && change[i].leased);
	if (leased && !registry_lease_left(r))
		return -ENOLCK;
	struct request *q = request_new(r, clock_deadline(r->config.timeout_ns));
	q->transaction = copy(compare, ncompare, change, nchange);
	q->transaction->callback = done;
	q->transaction->arg = arg;
	q->lease = leased ? r->lease.id : 0;
	return 0;
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
	*r = (struct registry){.node = node,
			       .config = *config,
			       .events = *events,
			       .lease = lease_begin(config->lease_ns),
			       .upto = UINT64_MAX,
			       .held = UINT64_MAX};
	r->config.timeout_ns /= SHORTER;
	list_init(&r->requests);
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
	list_for_safe(it, &r->requests)
		finish(r, list_entry(it, struct request, waiting), -ESHUTDOWN);
	if (!r->dead && r->lease.state == LEASE_HELD && !sim.cut[r->node])
		lease_serve(&(struct request){.want = LEASE_REVOKE, .lease = r->lease.id}, clock_now());
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
	go_on();
	lease_look_at(r);
	hear(r);
	mirror_follow(r);
	lease_turn(r);
}
