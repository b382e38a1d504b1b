/* What a change of the world (control/membership/membership.h), or an operator, has the coordinator do; and who is not let in. */
#include "control/host/coordinator_host_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/membership/membership.h"
#include "replication/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void host_moves(struct control *control, const char *job, uint32_t node, uint32_t plan)
{
	struct coordinator_host *host = host_find(control, job);
	struct peer_order order = {.type = PEER_INVALIDATE_PLAN, .number = plan};
	/* Last: a node that is given any other order has a participant, as far as it knows. */
	if (host && host->spread && coord_moves(host->coord, node))
		host_give(host, node, &order);
}

void host_invalidate_plan(struct control *control, const char *job, uint32_t plan)
{
	struct coordinator_host *host = host_find(control, job);
	struct peer_order order = {.type = PEER_INVALIDATE_PLAN, .number = plan};
	if (!host || !host->spread)
		return;
	AUTO_FREE bool *had = calloc(control->peers->roster->n, sizeof(*had));
	for (uint32_t n = 0; had && n < control->peers->roster->n; n++)
		had[n] = coord_has_joined(host->coord, n);
	coord_invalidate_plan(host->coord, "its ranks are those of another plan");
	memcpy(order.job, host->job, sizeof(order.job)); /* last, as above */
	for (uint32_t n = 0; had && n < control->peers->roster->n; n++)
		if (had[n])
			host_order(control, true, n, &order);
}

void host_hold(struct control *control, const char *job, const char *why)
{
	struct coordinator_host *host = host_find(control, job);
	if (host)
		coord_hold(host->coord, why);
}

void host_release(struct control *control, const char *job)
{
	struct coordinator_host *host = host_find(control, job);
	if (host)
		coord_release(host->coord);
}

void host_spill(struct control *control, const char *job, bool give_up)
{
	struct coordinator_host *host = host_find(control, job);
	if (host)
		(give_up ? coord_spill_give_up : coord_spill_begin)(host->coord);
}

void host_abandon(struct control *control, const char *job)
{
	struct coordinator_host *host = host_find(control, job);
	if (host)
		host_over(host, false);
}

void host_preface(struct control *control, const char *job, const char *text)
{
	struct coordinator_host *host = host_find(control, job);
	if (host)
		coord_preface(host->coord, text);
}

/* Those that have no rank of it pay no heed. */
void host_tell_others(struct coordinator_host *host, uint32_t node, const struct wire_command *command)
{
	const struct control *control = host->control;
	struct peer_order order = {.type = PEER_COMMAND, .command = *command};
	memcpy(order.job, host->job, sizeof(order.job));
	for (uint32_t n = 0; host->spread && control->peers->net && n < control->peers->roster->n; n++)
		if (n != node && (n == control->peers->self || net_is_up(control->peers->net, n)))
			host_order(host->control, true, n, &order);
}

/* Why nodes of the job were refused last; jobs that share one are told of more often. */
static struct repeat *refusal_of(struct control *control, const char *job)
{
	size_t sum = 0;
	while (*job)
		sum = 31 * sum + (unsigned char)*job++;
	return &control->refusals[sum % CONTROL_REFUSALS];
}

void host_refuse(struct control *control, uint32_t node, const char *job, int rc, const char *why)
{
	struct peer_order order = {.type = PEER_REJECT, .word.rc = rc};
	snprintf(order.job, sizeof(order.job), "%s", job);
	snprintf(order.word.text, sizeof(order.word.text), "%s", why);
	if (repeat_due(refusal_of(control, job), why, clock_now()))
		log_warn("%s", why);
	host_order(control, true, node, &order);
}

void host_admit(struct control *control, const char *job)
{
	*refusal_of(control, job) = (struct repeat){0};
}

static uint32_t not_there(const struct control *control)
{
	uint32_t n = 0;
	for (uint32_t node = 0; node < control->peers->roster->n; node++)
		n += node != control->peers->self && roster_has(control->peers->roster, node) &&
		     !net_is_up(control->peers->net, node);
	return n;
}

/* A job whose world may change goes on without who has not come back in time. Who is there, and has not answered, may still do so. */
uint32_t host_unheard(const struct coordinator_host *host, const struct replica_surveyed *s)
{
	if (!s->unheard || s->unheard > not_there(host->control) || !membership_gives_up(host->control, host->job))
		return s->unheard;
	log_warn("job %s: what is in memory on nodes that have not come back is given up: %s", host->job, s->names);
	return 0;
}

bool host_busy(const struct control *control, const char *job)
{
	const struct coordinator_host *host = host_find(control, job);
	return host && host->directories.n;
}

unsigned hosts_room(const struct control *control)
{
	unsigned room = control->peers->roster->max;
	list_for(it, &control->hosts) {
		const struct coordinator_host *host = list_entry(it, struct coordinator_host, link);
		if (host->spread && host->room < room)
			room = host->room;
	}
	return room;
}
