/* What a change of the world (muster.h), or an operator, has the coordinator do. */
#include "chair_private.h"
#include "net.h"
#include "roster.h"

#include <string.h>

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
