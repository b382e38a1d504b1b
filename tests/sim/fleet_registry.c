/* What happens to the registry of a fleet, and to its nodes there. All is drawn from a stream of its own, so that what else happens in a seed does not depend on it. */
#include "base/clock.h"
#include "control/coordinator_host.h"
#include "control/election.h"
#include "fleet.h"
#include "net_sim.h"
#include "registry_sim.h"

#include <string.h>

#define LEASE_NS (400 * CLOCK_NS_PER_MS) /* as long as the registry of the simulator makes it */

/* Of a thousand events. */
static struct {
	unsigned lead, part;
} often;
static uint64_t rng;
static bool early; /* leases may end sooner than promised */

/* Why a node does not reach it. */
static bool cut_off[FLEET_NODES_MAX];
static struct {
	uint64_t until_ns, term, epoch; /* 0: there is none */
	bool far[FLEET_NODES_MAX];      /* the registry is on the other side */
} parted;

static unsigned rate(unsigned percent, unsigned most)
{
	return rng_chance(&rng, percent) ? 1 + (unsigned)rng_below(&rng, most) : 0;
}

void registry_begin(uint64_t seed, uint64_t delay_ns, unsigned drop)
{
	rng = mix64(seed ^ 0x7265676973747279ull);
	struct registry_faults faults = {.delay_ns = delay_ns,
					 .lose = drop * 10 + rate(30, 50),
					 .mute = drop * 10 + rate(30, 50),
					 .slow = rate(50, 150),
					 .slow_ns = 1 + rng_below(&rng, LEASE_NS),
					 .fast = rate(50, 80),
					 .linger_ns = rate(30, 200) * CLOCK_NS_PER_MS,
					 .early = rate(20, 400)};
	early = faults.early;
	often.lead = rate(30, 10);
	often.part = rate(40, 4);
	memset(cut_off, 0, sizeof(cut_off));
	memset(&parted, 0, sizeof(parted));
	registry_sim_faults(&faults);
}

static void set_ways(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		registry_sim_cut(i, cut_off[i] || (parted.until_ns && parted.far[i]));
}

void registry_cut(unsigned node, bool cut)
{
	cut_off[node] = cut;
	set_ways();
}

/* ---- a partition ------------------------------------------------------------------------------------------------- */

/* The nodes in two groups, each with some; mostly the coordinator is in that which does not reach the registry. */
static void divide(void)
{
	const struct fleet_node *c = fleet_coordinator();
	unsigned n = 0;
	for (unsigned i = 0; i < fleet.n; i++)
		n += parted.far[i] = rng_chance(&rng, 50);
	unsigned odd = c ? c->id : (unsigned)rng_below(&rng, fleet.n);
	if (!n || n == fleet.n || (c && rng_chance(&rng, 50))) {
		parted.far[odd] = n != fleet.n;
		parted.far[(odd + 1) % fleet.n] = n == fleet.n;
	}
}

static void cut_between(bool cut)
{
	for (unsigned a = 0; a < fleet.n; a++)
		for (unsigned b = 0; b < fleet.n; b++)
			if (parted.far[a] != parted.far[b])
				net_sim_cut(a, b, cut);
	set_ways();
	fleet.cuts++;
	fleet.faults++;
}

static void part(void)
{
	divide();
	parted.until_ns = clock_now() + LEASE_NS + rng_below(&rng, 4 * LEASE_NS);
	parted.term = fleet_term();
	parted.epoch = fleet.told;
	cut_between(true);
	for (unsigned i = 0; i < fleet.n; i++)
		fleet_trace("partition: node %u is on the side %s the registry", i, parted.far[i] ? "without" : "of");
	fleet_sum.partitions++;
}

static void heal(void)
{
	const struct fleet_node *c = fleet_coordinator();
	parted.until_ns = 0;
	cut_between(false);
	fleet_trace("the partition is over");
	fleet_sum.elsewhere += c && parted.term && fleet_term() != parted.term;
	fleet_sum.parted_epochs += fleet.told > parted.epoch;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

bool registry_is_broken(void)
{
	return parted.until_ns;
}

static bool ends(void)
{
	if (!parted.until_ns || clock_now() < parted.until_ns)
		return false;
	heal();
	return true;
}

bool registry_happens(void)
{
	uint64_t what = rng_below(&rng, 1000);
	if (ends())
		return true;
	if (what < often.lead) {
		fleet_trace("another member of the registry leads");
		registry_sim_lead();
		fleet_sum.leads++;
	} else if (what - often.lead < often.part && !registry_is_broken()) {
		part();
	} else {
		return false;
	}
	return true;
}

void registry_mend(void)
{
	if (parted.until_ns)
		heal();
	memset(cut_off, 0, sizeof(cut_off));
	registry_sim_faults(&(struct registry_faults){0});
	set_ways();
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

static uint64_t term_held_by(const struct fleet_node *n)
{
	bool here = n->up && host_here(&n->daemon.control, FLEET_JOB);
	return here ? coordinator_term(&n->daemon.control, FLEET_JOB) : 0;
}

void registry_check(void)
{
	uint64_t held[FLEET_NODES_MAX] = {0};
	unsigned n = 0;
	for (unsigned i = 0; fleet.registry && i < fleet.n; i++) {
		uint64_t term = term_held_by(&fleet.nodes[i]);
		for (unsigned k = 0; term && k < n; k++)
			SIM_CHECK(held[k] != term, "two daemons coordinate the job in term %lu", (unsigned long)term);
		if (term)
			held[n++] = term;
	}
	SIM_CHECK(n <= 1 || early, "%u daemons coordinate the job", n);
	fleet_sum.doubles += n > 1;
}
