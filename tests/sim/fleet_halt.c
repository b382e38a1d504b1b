/* Halts: what a job was asked, and was on record once, holds under each coordinator for as long as a process is there that was there when it was asked, and not for those
 * who begin when nobody is left. It is asked to end at a time that does not come, again and again, and that is taken back. Some jobs die as one, with their coordinator
 * or a moment after it. */
#include "base/clock.h"
#include "control/host/coordinator_host_private.h"
#include "control/record/epoch_record.h"
#include "fleet.h"

#include <errno.h>

#define NEVER_NS (1ull << 62)
#define SHORTLY_NS (300 * CLOCK_NS_PER_MS)

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
	fleet.halt.seen = fleet.halt.gone = false;
	fleet_sum.halts++;
	fleet.halt.lost = rng_chance(world_rng(), 40);
	if (!fleet.halt.lost || rng_chance(world_rng(), 60))
		return true;
	fleet.halt.lost = false;
	fleet_kill_daemon(n);
	fleet_sum.halt_early++;
	return true;
}

/* All of its ranks and launchers at one time; most nodes begin it again at once. What daemons hold of it stays with them. */
static void job_dies(void)
{
	fleet.halt.ends_ns = 0;
	fleet_trace("the job dies as one");
	fleet.faults++;
	for (unsigned i = 0; i < fleet.n; i++)
		if (!fleet.nodes[i].ended)
			launcher_kill(&fleet.nodes[i]);
	halt_nobody();
	for (unsigned i = 0; i < fleet.n && fleet.elastic; i++)
		if (fleet.nodes[i].up && rng_chance(world_rng(), 80))
			elastic_begin_again(&fleet.nodes[i]);
}

/* With the coordinator's daemon, before it or after it, or alone. */
static void lose_with_job(struct fleet_node *n)
{
	if (rng_chance(world_rng(), 80))
		fleet_kill_daemon(n);
	if (rng_chance(world_rng(), 60))
		job_dies();
	else
		fleet.halt.ends_ns = clock_now() + rng_below(world_rng(), SHORTLY_NS);
}

bool halt_interrupt(void)
{
	struct fleet_node *n = fleet_coordinator();
	if (fleet.halt.ends_ns && clock_now() >= fleet.halt.ends_ns) {
		job_dies();
		return true;
	}
	if (!fleet.halt.lost || !fleet.halt.seen || !n)
		return false;
	fleet.halt.lost = false;
	if (fleet.halt.kind && rng_chance(world_rng(), 60))
		lose_with_job(n);
	else
		fleet_kill_daemon(n);
	return true;
}

void halt_nobody(void)
{
	fleet.halt.gone = fleet.halt.seen;
}

/* Somebody is in the epoch who was in one when that was seen. A process that had yet to hear of its first is taken for one that begins anew. */
static bool is_witnessed(uint32_t epoch)
{
	fleet_each(r) if (r->alive && r->joined && r->epoch == epoch && r->asked) return true;
	return false;
}

/* A launcher that knows of an epoch is taken for one that was there by a daemon that has not seen it begin: nothing is claimed then. */
void halt_daemon_lost(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.halt.gone && (fleet.nodes[i].heard || launcher_epoch(&fleet.nodes[i])))
			fleet.halt.gone = fleet.halt.seen = false;
}

static bool is_left(void)
{
	fleet_each(r) if (r->alive) return true;
	for (unsigned i = 0; i < fleet.n; i++)
		if (fleet.nodes[i].assignment.runs)
			return true;
	return !fleet.elastic; /* the launchers of a world that is fixed begin again at once */
}

/* By those who have begun since nobody was left; the coordinator may not have heard of that yet. */
static bool is_begun_anew(uint32_t epoch)
{
	fleet_each(r) if (fleet.halt.gone && r->alive && r->joined && r->epoch == epoch) return true;
	return false;
}

void halts_check(void)
{
	if (!is_left())
		halt_nobody();
	struct fleet_node *n = is_kept() ? fleet_coordinator() : NULL;
	const struct coordinator_host *host = n ? host_find(&n->daemon.control, FLEET_JOB) : NULL;
	struct coord_view v = host ? coord_view(host->coord) : (struct coord_view){0};
	if (!v.epoch || v.entered != v.epoch || v.attending != v.world ||
	    host->halt.asked.number > host->halt.is.number)
		return;
	const struct peer_halt is = host->halt.is;
	/* A job whose world would become too small is asked to end by nobody. */
	bool holds = fleet.halt.seen && is_witnessed(v.epoch) && is.kind != COMMAND_HALT, anew = is_begun_anew(v.epoch);
	SIM_CHECK(!anew || !is.kind || is.kind == COMMAND_HALT, "the job has begun anew, and is to end at %lu",
		  (unsigned long)is.before_ns);
	fleet_sum.halt_anew += anew && fleet.halt.kind;
	if (fleet.halt.gone && !anew)
		return;
	SIM_CHECK(!holds || (is.kind == fleet.halt.kind && is.before_ns == fleet.halt.before_ns),
		  "the job is to end at %lu, and was asked to end at %lu", (unsigned long)is.before_ns,
		  (unsigned long)fleet.halt.before_ns);
	fleet_sum.halt_held += holds && is.kind && fleet.halt.term != fleet_term();
	fleet.halt.seen = true;
	fleet.halt.gone = false;
	fleet.halt.kind = is.kind;
	fleet.halt.before_ns = is.before_ns;
	fleet_each(r) r->asked = r->alive && r->epoch;
	fleet.halt.term = fleet_term();
}
