/* All processes of a job without a launcher are gone, and some of its nodes: what is newest in the memory of the others, copies included, is
 * written as before a change of the world that is planned (control/membership.h). Somebody has asked for it, since another world waits (restore/former.h). */
#include "control/coordinator_host_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/membership.h"

/* In which everybody has said what he has. */
#define RESCUE_NS (15 * CLOCK_NS_PER_S)

/* Once in each epoch: what could not be had does not come back but with a node. */
bool chair_asked_to_rescue(struct chair *chair)
{
	struct daemon *daemon = chair->daemon;
	struct coord_view v = coord_view(chair->coord);
	if (!chair->spread || !v.attending || v.attending >= v.world || v.entered == v.epoch || daemon->root < 0 ||
	    muster_plan(daemon, chair->job))
		return false;
	if (chair->rescue_ns || chair->rescued_in == v.epoch)
		return true;
	log_warn("job %s: nodes of it are lost, and another world waits: what is newest in memory is written first",
		 chair->job);
	chair->rescue_ns = clock_deadline(RESCUE_NS);
	chair->rescued_in = v.epoch;
	chair_hold(daemon, chair->job, "another world waits");
	chair_rescue(daemon, chair->job, false);
	return true;
}

void chair_rescue_tick(struct chair *chair)
{
	struct daemon *daemon = chair->daemon;
	struct coord_view v = coord_view(chair->coord);
	if (!chair->rescue_ns)
		return;
	if (chair_busy(daemon, chair->job)) {
		chair->rescue_ns = clock_deadline(RESCUE_NS); /* nobody looks, or it is being written */
		return;
	}
	if (!v.rescued) {
		chair_rescue(daemon, chair->job, clock_now() >= chair->rescue_ns);
		return;
	}
	if (*v.not_rescued)
		log_warn("job %s: not all that was in memory is on storage: %s", chair->job, v.not_rescued);
	chair->rescue_ns = 0;
	chair_release(daemon, chair->job);
}
