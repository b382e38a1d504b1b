/* Drains of an elastic job: what was on record once holds under each coordinator, until something else is asked, or the job begins anew. */
#include "base/clock.h"
#include "control/host/coordinator_host.h"
#include "control/membership/membership.h"
#include "coordinator/assignment.h"
#include "fleet.h"

#include <errno.h>
#include <stdio.h>

int drain_ask(struct fleet_node *n, bool drained)
{
	struct err err = {{0}};
	char name[16];
	snprintf(name, sizeof(name), "n%u", n->id);
	struct fleet_node *first = fleet_coordinator();
	if (!first || n->assignment.leaving)
		return -ENOTCONN;
	int rc = membership_drain(&first->daemon.control, FLEET_JOB, name, drained, &err);
	if (rc && rc != -EINPROGRESS)
		return rc;
	fleet_trace("node %u is %s%s", n->id, drained ? "drained" : "not drained any more",
		    rc ? ", when on record" : "");
	n->drain.seen = false;
	fleet_sum.drains += drained;
	return rc;
}

/* Before that is on record, or at once after it; some nodes that are drained are lost with the coordinator. */
void drain_ask_and_lose(struct fleet_node *n, bool drained)
{
	int rc = drain_ask(n, drained);
	struct fleet_node *first = fleet_coordinator();
	if ((rc && rc != -EINPROGRESS) || !rng_chance(world_rng(), 40))
		return;
	fleet.drain_lost = !rc || rng_chance(world_rng(), 50);
	if (!fleet.drain_lost) {
		fleet_kill_daemon(first);
		fleet_sum.drain_early++;
	}
	if (n != first && fleet.stored && rng_chance(world_rng(), 30)) {
		fleet_lose(n);
		elastic_lost(n);
	}
}

bool drain_interrupt(void)
{
	struct fleet_node *first = fleet_coordinator();
	if (!fleet.drain_lost || !fleet.drain_told || !first)
		return false;
	fleet.drain_lost = fleet.drain_told = false;
	fleet_kill_daemon(first);
	return true;
}

static bool is_followed(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.nodes[i].assignment.runs && fleet.nodes[i].assignment.plan)
			return true;
	return false;
}

/* By nobody who was there before. */
static bool begins_anew(const struct assignment *c)
{
	bool anew = c->number > fleet.drain_plan;
	for (uint32_t r = 0; r < c->world; r++)
		anew = anew && c->was[r] == ASSIGNMENT_NEW;
	fleet.drain_plan = c->number > fleet.drain_plan ? c->number : fleet.drain_plan;
	return anew;
}

static void forget(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		fleet.nodes[i].drain.seen = false;
}

static void see(struct fleet_node *n, const struct membership_drained *is)
{
	if (is->waits || is->departs || n->was_forgotten)
		return;
	SIM_CHECK(!n->drain.seen || n->drain.is == is->asked, "node %u is %s, and nobody has asked for that", n->id,
		  is->asked ? "drained" : "not drained any more");
	fleet.drain_told |= !n->drain.seen;
	fleet_sum.drain_held += n->drain.seen && n->drain.is && n->drain.term != fleet_term();
	n->drain.seen = true;
	n->drain.is = is->asked;
	n->drain.term = fleet_term();
}

void drains_check(void)
{
	const struct membership *at = NULL;
	struct membership_view v;
	struct membership_drained is;
	struct err err;
	struct fleet_node *c = fleet_coordinator();
	if (!fleet.elastic || (!fleet.stored && !fleet.registry))
		return; /* there is no record */
	if (!is_followed())
		forget();
	if (!c || !membership_next(&c->daemon.control, &at, &v) || !v.assignment->world)
		return;
	if (v.untold)
		return; /* that plan may never be on record */
	if (begins_anew(v.assignment))
		forget();
	for (unsigned i = 0; i < fleet.n; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%u", i);
		int rc = membership_drained(&c->daemon.control, FLEET_JOB, name, &is, &err);
		if (!rc || rc == -EBUSY)
			see(&fleet.nodes[i], &is);
	}
}
