/* All processes of a job without a launcher are gone, and some of its nodes: what is newest in the memory of the others,
 * copies included, is written as before a change of the world that is planned (control/membership/membership.h). Somebody has asked
 * for it, since another world waits (restore/former.h). */
#include "control/host/coordinator_host_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "control/control.h"
#include "control/membership/membership.h"

/* In which all nodes have said what they have. */
#define SPILL_NS (15 * CLOCK_NS_PER_S)

/* Once in each epoch: what could not be had does not come back but with a node. */
bool host_asked_to_spill(struct coordinator_host *host)
{
	struct control *control = host->control;
	struct coord_view v = coord_view(host->coord);
	if (!host->spread || v.resuming || !v.attending || v.attending >= v.world || v.entered == v.epoch ||
	    control->storage->root < 0 || membership_plan(control, host->job))
		return false;
	if (host->spill_ns || host->spilled_in == v.epoch)
		return true;
	log_warn("job %s: nodes of it are lost, and another world waits: what is newest in memory is written first",
		 host->job);
	host->spill_ns = clock_deadline(SPILL_NS);
	host->spilled_in = v.epoch;
	host_hold(control, host->job, "another world waits");
	host_spill(control, host->job, false);
	return true;
}

void host_spill_tick(struct coordinator_host *host)
{
	struct control *control = host->control;
	struct coord_view v = coord_view(host->coord);
	if (!host->spill_ns)
		return;
	if (host_busy(control, host->job)) {
		host->spill_ns = clock_deadline(SPILL_NS); /* nobody looks, or it is being written */
		return;
	}
	if (!v.spilled) {
		host_spill(control, host->job, clock_now() >= host->spill_ns);
		return;
	}
	if (*v.not_spilled)
		log_warn("job %s: not all that was in memory is on storage: %s", host->job, v.not_spilled);
	host->spill_ns = 0;
	host_release(control, host->job);
}
