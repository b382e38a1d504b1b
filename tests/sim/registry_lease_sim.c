/* Leases of the simulated registry. The owner's side is that of the daemon (ckptd/registry/lease.c), on a clock that is SHORTER times as fast. The other side keeps to
 * what etcd promises: a lease stands for its time from when the renewal came, by a clock that may be fast by less than the margin; and often longer. With the
 * fault `early` it does not keep to that. */
#include "registry_sim_private.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "rng.h"
#include "world.h"

#define sim registry_sim

/* ---- what stands ------------------------------------------------------------------------------------------------- */

static struct standing_lease *find(uint64_t id)
{
	for (unsigned i = 0; i < sim.nleases; i++)
		if (sim.lease[i].id == id)
			return &sim.lease[i];
	return NULL;
}

bool lease_stands(uint64_t id)
{
	return find(id);
}

struct standing_lease *lease_to_end(uint64_t until_ns)
{
	struct standing_lease *first = NULL;
	for (unsigned i = 0; i < sim.nleases; i++)
		if (sim.lease[i].ends_ns <= until_ns && (!first || sim.lease[i].ends_ns < first->ends_ns))
			first = &sim.lease[i];
	return first;
}

/* Its owner counts on it still. */
static bool is_promised(const struct standing_lease *l)
{
	for (unsigned n = 0; n < NODES; n++) {
		const struct registry *r = sim.nodes[n];
		if (r && !r->dead && r->lease.state == LEASE_HELD && r->lease.id == l->id &&
		    r->lease.until / SHORTER > l->ends_ns)
			return true;
	}
	return false;
}

void lease_end(struct standing_lease *l)
{
	uint64_t id = l->id;
	sim.counts.expired++;
	if (is_promised(l)) {
		SIM_CHECK(l->early, "lease %lu ends at %.6f, earlier than its owner was promised", (unsigned long)id,
			  (double)l->ends_ns / 1e9);
		sim.counts.early++;
	}
	*l = sim.lease[--sim.nleases];
	registry_drop(id);
}

static void extend(struct standing_lease *l, uint64_t now)
{
	uint64_t shorter = l->length_ns * sim.faults.fast / 1000,
		 longer = rng_below(&sim.rng, sim.faults.linger_ns + 1);
	l->early = registry_chance(sim.faults.early);
	l->ends_ns = now + (l->early ? rng_below(&sim.rng, l->length_ns) : l->length_ns - shorter + longer);
}

void registry_sim_lead(void)
{
	for (unsigned i = 0; i < sim.nleases; i++)
		sim.lease[i].ends_ns = max_u64(sim.lease[i].ends_ns, clock_now() + sim.lease[i].length_ns);
}

void lease_serve(struct request *q, uint64_t now)
{
	struct standing_lease *l = find(q->lease);
	if (q->want == LEASE_GRANT && !l) {
		SIM_CHECK(sim.nleases < LEASES, "too many leases");
		l = &sim.lease[sim.nleases++];
		*l = (struct standing_lease){.id = q->lease, .length_ns = q->length_ns};
	}
	q->ended = !l;
	if (l && q->want == LEASE_REVOKE) {
		*l = sim.lease[--sim.nleases];
		registry_drop(q->lease);
	} else if (l) {
		extend(l, now);
	}
}

/* ---- the owner's side -------------------------------------------------------------------------------------------- */

static uint64_t fast(uint64_t ns)
{
	return ns * SHORTER;
}

static void lapse(struct registry *r)
{
	sim.counts.lapsed++;
	r->events.lapsed(r->events.arg);
}

void lease_look_at(struct registry *r)
{
	if (lease_look(&r->lease, fast(clock_now())))
		lapse(r);
}

void lease_is_over(struct registry *r, uint64_t id)
{
	if (r->lease.id == id && lease_lost(&r->lease, fast(clock_now())))
		lapse(r);
}

void lease_hear(struct registry *r, const struct request *q, bool failed)
{
	uint64_t now = fast(clock_now());
	sim.counts.unrenewed += failed && q->want == LEASE_RENEW;
	if (failed)
		lease_failed(&r->lease, q->lease, now);
	else if (q->want == LEASE_REVOKE)
		lease_revoked(&r->lease, q->lease, now);
	else if (q->ended)
		lease_is_over(r, q->lease);
	else if (lease_answered(&r->lease, q->lease, fast(q->length_ns), fast(q->sent_ns), now))
		r->events.leased(r->events.arg);
}

void lease_turn(struct registry *r)
{
	uint64_t now = clock_now();
	enum lease_want want = lease_wants(&r->lease, fast(now));
	if (want == LEASE_REST)
		return;
	uint64_t id = want == LEASE_GRANT ? ++sim.leases : r->lease.id, end = now + r->config.timeout_ns;
	struct request *q = request_new(r, want == LEASE_RENEW ? min_u64(end, now + registry_lease_left(r)) : end);
	q->want = want;
	q->length_ns = r->lease.ttl_s * CLOCK_NS_PER_S / SHORTER;
	q->lease = id;
	lease_ask(&r->lease, id);
}

uint64_t registry_lease_left(const struct registry *r)
{
	return lease_left(&r->lease, fast(clock_now())) / SHORTER;
}
