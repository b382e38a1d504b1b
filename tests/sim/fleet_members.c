/* Nodes that an operator removes from an open roster: one that is lost for good, one whose daemon has ended for a while, or one that runs and does not reach the registry.
 * Each comes back, and joins anew, under a number that no node had before. All is drawn from a stream of its own. */
#include "base/clock.h"
#include "control/election/members.h"
#include "fleet.h"

#include <errno.h>
#include <stdio.h>

#define AGAIN_NS (50 * CLOCK_NS_PER_MS)
#define PATIENCE_NS (2 * CLOCK_NS_PER_S)

static struct {
	struct fleet_node *node; /* NULL: none is to be removed now */
	bool asked;              /* somebody asks the registry */
	bool runs;               /* its daemon does, cut off from the registry */
	uint64_t again_ns, until_ns;
} removal;
static uint64_t rng;
static unsigned often; /* of a thousand events */

void members_begin(uint64_t seed)
{
	rng = mix64(seed ^ 0x6d656d62657273ull);
	often = rng_chance(&rng, 60) ? 1 + (unsigned)rng_below(&rng, 6) : 0;
	removal.node = NULL;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

static bool was_given(unsigned number)
{
	return fleet.given[number / 64] & 1ull << number % 64;
}

void members_give(unsigned number)
{
	fleet.given[number / 64] |= 1ull << number % 64;
}

void members_joined(struct fleet_node *n)
{
	unsigned number = n->daemon.peers.self;
	bool anew = number != n->number;
	SIM_CHECK(number < FLEET_NUMBERS, "node %u has number %u", n->id, number);
	SIM_CHECK(!anew || n->forgotten, "node %u has number %u, and had %u", n->id, number, n->number);
	SIM_CHECK(!anew || !was_given(number), "node %u has number %u, which another one had", n->id, number);
	if (anew)
		fleet_trace("node %u joins anew, as number %u", n->id, number);
	n->number = number;
	n->forgotten = n->forgotten && !anew;
	members_give(number);
	fleet_sum.joins++;
	fleet_sum.anew += anew;
}

bool members_put_out(struct fleet_node *n, const struct err *why)
{
	SIM_CHECK(n->forgotten, "node %u is put out of the cluster: %s", n->id, why->text);
	fleet_trace("node %u: %s", n->id, why->text);
	fleet_stop_daemon(n);
	fleet_sum.put_out++;
	return true;
}

/* ---- removing ---------------------------------------------------------------------------------------------------- */

static void removed(void *arg, int rc, const char *why)
{
	struct fleet_node *n = arg;
	removal.asked = false;
	fleet_trace("node %u: it is %s: %s", n->id, rc ? "not removed" : "removed", why);
	if (rc || n != removal.node)
		return;
	fleet_sum.removed++;
	fleet_sum.removed_alive += n->up;
	fleet_count_loss(); /* of one that runs nobody hears any more */
	fleet.faults++;
	registry_cut(n->id, false);
	removal.node = NULL;
}

static struct fleet_node *asker(void)
{
	unsigned first = (unsigned)rng_below(&rng, fleet.n);
	for (unsigned i = 0; i < fleet.n; i++) {
		struct fleet_node *n = &fleet.nodes[(first + i) % fleet.n];
		if (n->up && n != removal.node && clock_now() >= n->frozen_ns)
			return n;
	}
	return NULL;
}

static bool ask(void)
{
	struct fleet_node *by = asker();
	struct err err = {{0}};
	char name[16];
	removal.again_ns = clock_now() + AGAIN_NS;
	snprintf(name, sizeof(name), "n%u", removal.node->id);
	int rc = by ? members_remove(&by->daemon.control, name, removed, removal.node, &err) : -ENOTCONN;
	removal.asked = !rc;
	removal.node->forgotten |= !rc;
	removal.node->was_forgotten |= !rc;
	fleet_sum.not_removed += rc == -EBUSY;
	return !rc;
}

/* One that is lost for good, if there is one. */
static struct fleet_node *choose(void)
{
	unsigned first = (unsigned)rng_below(&rng, fleet.n);
	for (unsigned i = 0; i < fleet.n; i++) {
		struct fleet_node *n = &fleet.nodes[(first + i) % fleet.n];
		if (n->away && !n->up && !n->joining && !n->ending)
			return n;
	}
	return &fleet.nodes[first];
}

static bool begin(void)
{
	struct fleet_node *n = choose();
	if (!n->up && !n->away)
		return false;
	removal.node = n;
	removal.runs = n->up && rng_chance(&rng, 50);
	removal.again_ns = clock_now();
	removal.until_ns = clock_now() + PATIENCE_NS;
	fleet_trace("node %u is to be removed%s", n->id, removal.runs ? ", and runs" : "");
	if (removal.runs) {
		registry_cut(n->id, true);
		return true;
	}
	if (n->up)
		(rng_chance(&rng, 50) ? fleet_kill_daemon : fleet_stop_daemon)(n);
	if (!n->ending)
		n->frozen_ns = removal.until_ns; /* nobody starts it meanwhile */
	return true;
}

static void give_up(void)
{
	registry_cut(removal.node->id, false);
	removal.node = NULL;
}

bool members_happens(void)
{
	bool now = rng_below(&rng, 1000) < often;
	if (!removal.node)
		return now && begin();
	if (removal.asked || clock_now() < removal.again_ns)
		return false;
	if (clock_now() < removal.until_ns)
		return ask();
	give_up();
	return true;
}

bool members_change(void)
{
	return removal.node;
}

void members_mend(void)
{
	removal.node = NULL;
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

static bool is_number_of_one(unsigned number)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.nodes[i].number == number)
			return true;
	return false;
}

void members_check_gone(void)
{
	for (unsigned i = 0; fleet.members && i < fleet.n; i++)
		for (unsigned k = 0; fleet.nodes[i].up && k < FLEET_NUMBERS; k++) {
			bool gone = was_given(k) && !is_number_of_one(k);
			SIM_CHECK(!gone || !net_is_up(fleet.nodes[i].daemon.peers.net, k),
				  "node %u has a session with number %u, which was removed", i, k);
			fleet_sum.gone += gone;
		}
}
