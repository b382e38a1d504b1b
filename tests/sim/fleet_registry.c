/* What happens to the registry of a fleet, and to its nodes there. All is drawn from a stream of its own, so that what else happens in a seed does not depend on it. */
#include "base/clock.h"
#include "control/coordinator_host.h"
#include "control/election.h"
#include "fleet.h"
#include "registry_sim.h"

/* Of a thousand events. */
static struct {
	unsigned lead;
} often;
static uint64_t rng;
static bool early; /* leases may end sooner than promised */

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
					 .slow_ns = 1 + rng_below(&rng, 400 * CLOCK_NS_PER_MS),
					 .fast = rate(50, 80),
					 .linger_ns = rate(30, 200) * CLOCK_NS_PER_MS,
					 .early = rate(20, 400)};
	early = faults.early;
	often.lead = rate(30, 10);
	registry_sim_faults(&faults);
}

bool registry_happens(void)
{
	uint64_t what = rng_below(&rng, 1000);
	if (what >= often.lead)
		return false;
	fleet_trace("another member of the registry leads");
	registry_sim_lead();
	fleet_sum.leads++;
	return true;
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
