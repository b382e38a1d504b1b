#include "control/host/coordinator_end.h"

#include "base/failpoint.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/host/coordinator_host_private.h"
#include "control/lemon/set_aside.h"
#include "control/membership/membership.h"
#include "control/record/epoch_record.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>

/* A node that holds copies need not have had any rank. */
static void tell_all(struct coordinator_host *host)
{
	const struct peers *peers = host->control->peers;
	struct coord_view view = coord_view(host->coord);
	struct peer_order end = {
		.type = PEER_END,
		.word = {.epoch = view.epoch, .flag = view.unserved, .rc = host->end.finished ? 0 : -EOWNERDEAD}};
	for (uint32_t n = 0; host->spread && n < peers->roster->n; n++) {
		if (n != peers->self && (!peers->net || !net_is_up(peers->net, n)))
			continue;
		failpoint("end.tell", NULL);
		host_give(host, n, &end);
	}
}

static void tell(struct coordinator_host *host)
{
	tell_all(host);
	host->end.untold = false;
	if (host->spread)
		set_aside_ended(host->control, host->job);
	host_end(host);
}

/* The daemon ends: its workers and its net are gone, so that nothing is recorded any more, and nobody told. */
static bool is_leaving(const struct control *control)
{
	return control->runtime->stopping && !control->peers->net;
}

/* What was on its way to the record is older than this. */
static void put_on_record(struct coordinator_host *host)
{
	epochs_forget(host->record);
	host->record = NULL;
	host_persist(host, coord_view(host->coord).epoch, coord_reason(host->coord));
}

void host_over(struct coordinator_host *host, bool finished)
{
	uint32_t plan = host->spread ? membership_plan(host->control, host->job) : 0;
	if (end_waits(host))
		return;
	bool asked = halt_end(host), leaves = is_leaving(host->control);
	host->end.finished = finished && !coord_view(host->coord).unserved;
	membership_over(host->control, host->job, host->end.finished);
	host->ended = true;
	host->end.plan = plan ? plan : host->end.plan;
	host->end.untold = asked || (plan && !leaves && epochs_are_kept(host->control));
	if (end_waits(host))
		put_on_record(host);
	else if (leaves)
		host_end(host);
	else
		tell(host);
}

bool end_waits(const struct coordinator_host *host)
{
	return host->end.untold;
}

void end_recorded(struct coordinator_host *host)
{
	tell(host);
}

void end_deposed(struct coordinator_host *host)
{
	if (end_waits(host))
		membership_past_forget(host->control, host->job);
	host->end.untold = false;
}

bool end_refuses(struct control *control, uint32_t node, bool spread, const struct peer_report *r)
{
	char why[128];
	const struct coordinator_host *host = host_find(control, r->job);
	bool comes = r->type == PEER_CAPACITY || r->type == PEER_NODE_JOIN;
	if (!host || !end_waits(host) || host->spread != spread || !comes)
		return false;
	snprintf(why, sizeof(why), "job '%s' has ended, and that is not on record yet", r->job);
	host_refuse(control, node, r->job, -EAGAIN, why);
	return true;
}
