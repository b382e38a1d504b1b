/* What a change of the world (control/membership.h), or an operator, has the coordinator do; and who is not let in. */
#include "control/coordinator_host_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/net.h"
#include "cluster/roster.h"
#include "control/membership.h"
#include "replication/replication.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void chair_vacate(struct daemon *daemon, const char *job, uint32_t plan)
{
	struct chair *chair = chair_find(daemon, job);
	struct peer_order order = {.type = PEER_VACATE, .number = plan};
	if (!chair || !chair->spread)
		return;
	AUTO_FREE bool *had = calloc(daemon->roster->n, sizeof(*had));
	for (uint32_t n = 0; had && n < daemon->roster->n; n++)
		had[n] = coord_attends(chair->coord, n);
	coord_vacate(chair->coord, "its ranks are those of another plan");
	memcpy(order.job, chair->job, sizeof(order.job));
	/* Last: who is given any other order has a seat, as far as he knows. */
	for (uint32_t n = 0; had && n < daemon->roster->n; n++)
		if (had[n])
			chair_order(daemon, true, n, &order);
}

void chair_hold(struct daemon *daemon, const char *job, const char *why)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		coord_hold(chair->coord, why);
}

void chair_release(struct daemon *daemon, const char *job)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		coord_release(chair->coord);
}

void chair_rescue(struct daemon *daemon, const char *job, bool give_up)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		(give_up ? coord_rescue_give_up : coord_rescue_begin)(chair->coord);
}

void chair_abandon(struct daemon *daemon, const char *job)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		chair_over(chair);
}

void chair_preface(struct daemon *daemon, const char *job, const char *text)
{
	struct chair *chair = chair_find(daemon, job);
	if (chair)
		coord_preface(chair->coord, text);
}

/* Those that have no rank of it pay no heed. */
void chair_tell_others(struct chair *chair, uint32_t node, const struct wire_command *command)
{
	const struct daemon *d = chair->daemon;
	struct peer_order order = {.type = PEER_COMMAND, .command = *command};
	memcpy(order.job, chair->job, sizeof(order.job));
	for (uint32_t n = 0; chair->spread && d->net && n < d->roster->n; n++)
		if (n != node && (n == d->self || net_is_up(d->net, n)))
			chair_order(chair->daemon, true, n, &order);
}

/* Why nodes of the job were refused last; jobs that share one are told of more often. */
static struct repeat *refusal_of(struct daemon *daemon, const char *job)
{
	size_t sum = 0;
	while (*job)
		sum = 31 * sum + (unsigned char)*job++;
	return &daemon->refusals[sum % DAEMON_REFUSALS];
}

void chair_refuse(struct daemon *daemon, uint32_t node, const char *job, int rc, const char *why)
{
	struct peer_order order = {.type = PEER_TURN_AWAY, .word.rc = rc};
	snprintf(order.job, sizeof(order.job), "%s", job);
	snprintf(order.word.text, sizeof(order.word.text), "%s", why);
	if (repeat_due(refusal_of(daemon, job), why, clock_now()))
		log_warn("%s", why);
	chair_order(daemon, true, node, &order);
}

void chair_admit(struct daemon *daemon, const char *job)
{
	*refusal_of(daemon, job) = (struct repeat){0};
}

static uint32_t not_there(const struct daemon *daemon)
{
	uint32_t n = 0;
	for (uint32_t node = 0; node < daemon->roster->n; node++)
		n += node != daemon->self && !net_is_up(daemon->net, node);
	return n;
}

/* A job whose world may change goes on without who has not come back in time. Who is there, and has not answered, may still do so. */
uint32_t chair_unheard(const struct chair *chair, const struct replica_surveyed *s)
{
	if (!s->unheard || s->unheard > not_there(chair->daemon) || !muster_gives_up(chair->daemon, chair->job))
		return s->unheard;
	log_warn("job %s: what is in memory on nodes that have not come back is given up: %s", chair->job, s->names);
	return 0;
}

bool chair_busy(const struct daemon *daemon, const char *job)
{
	const struct chair *chair = chair_find(daemon, job);
	return chair && chair->sites.n;
}
