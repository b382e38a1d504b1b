/* Halts: what a job was asked, and was on record once, holds under each coordinator for as long as a process is there that was there when it was asked. It is asked to end
 * at a time that does not come, again and again, and that is taken back. */
#include "base/clock.h"
#include "control/coordinator_host_private.h"
#include "control/epoch_record.h"
#include "fleet.h"

#include <errno.h>

#define NEVER_NS (1ull << 62)

static bool is_kept(void)
{
	return fleet.stored || fleet.registry;
}

/* Some coordinators are lost before it is on record, others at once after it. */
bool halt_ask(void)
{
	struct fleet_node *n = fleet_coordinator();
	struct err err = {{0}};
	struct wire_command command = {.kind = rng_chance(world_rng(), 30) ? COMMAND_GO_ON : COMMAND_HALT_BEFORE,
				       .at_ns = NEVER_NS + rng_below(world_rng(), NEVER_NS)};
	int rc = n && is_kept() ? host_halt(&n->daemon.control, FLEET_JOB, &command, &err) : -ENOTCONN;
	if (rc && rc != -EINPROGRESS)
		return false;
	fleet_trace("the job is asked to end at %lu", command.kind == COMMAND_GO_ON ? 0 : (unsigned long)command.at_ns);
	fleet.halt.seen = false;
	fleet_sum.halts++;
	fleet.halt.lost = rng_chance(world_rng(), 40);
	if (!fleet.halt.lost || rng_chance(world_rng(), 60))
		return true;
	fleet.halt.lost = false;
	fleet_kill_daemon(n);
	fleet_sum.halt_early++;
	return true;
}

bool halt_interrupt(void)
{
	struct fleet_node *n = fleet_coordinator();
	if (!fleet.halt.lost || !fleet.halt.seen || !n)
		return false;
	fleet.halt.lost = false;
	fleet_kill_daemon(n);
	return true;
}

/* Somebody who was there when that was seen is in the epoch. */
static bool is_witnessed(uint32_t epoch)
{
	fleet_each(r) if (r->alive && r->joined && r->epoch == epoch && r->life <= fleet.halt.lives) return true;
	return false;
}

void halts_check(void)
{
	struct fleet_node *n = is_kept() ? fleet_coordinator() : NULL;
	const struct coordinator_host *host = n ? host_find(&n->daemon.control, FLEET_JOB) : NULL;
	struct coord_view v = host ? coord_view(host->coord) : (struct coord_view){0};
	if (!v.epoch || v.entered != v.epoch || v.attending != v.world ||
	    host->halt.asked.number > host->halt.is.number)
		return;
	const struct peer_halt is = host->halt.is;
	/* A job whose world would become too small is asked to end by nobody. */
	bool holds = fleet.halt.seen && is_witnessed(v.epoch) && is.kind != COMMAND_HALT;
	SIM_CHECK(!holds || (is.kind == fleet.halt.kind && is.before_ns == fleet.halt.before_ns),
		  "the job is to end at %lu, and was asked to end at %lu", (unsigned long)is.before_ns,
		  (unsigned long)fleet.halt.before_ns);
	fleet_sum.halt_held += holds && is.kind && fleet.halt.term != fleet_term();
	fleet.halt.seen = true;
	fleet.halt.kind = is.kind;
	fleet.halt.before_ns = is.before_ns;
	fleet.halt.lives = fleet.lives;
	fleet.halt.term = fleet_term();
}
