/* Which steps are saved: the schedules of an epoch, one behind the other (format/arena/schedule.h). Each is told to all nodes, and is not
 * changed any more. A coordinator that goes on with an epoch under which another one, or an earlier incarnation of it, has told of some hears first
 * from all nodes what they have: the newest of these is the last. */
#include "coordinator/coordinator_private.h"

#include "base/log.h"

void coord_schedule_enter(struct coord *c)
{
	c->schedule = (struct coord_schedule){.epoch = c->epoch, .known = true};
}

static void tell(struct coord *c, uint32_t node)
{
	struct peer_order order = {.type = PEER_SCHEDULE, .schedule = c->schedule.last};
	coord_order(c, node, &order);
}

static void tell_all(struct coord *c)
{
	coord_each(c, n) tell(c, n);
}

/* True: all have said what they have. */
static bool hear(struct coord *c, uint32_t node, const struct schedule *held)
{
	uint32_t heard = 0;
	if (c->schedule.known)
		return true;
	c->nodes[node].schedule_heard = true;
	if (held->epoch == c->epoch && held->number > c->schedule.last.number)
		c->schedule.last = *held;
	coord_each(c, n) heard += c->nodes[n].schedule_heard ? c->nodes[n].ranks : 0;
	if (heard != c->world)
		return false;
	c->schedule.known = true;
	if (c->schedule.last.number) /* some may have it, and others not */
		tell_all(c);
	return true;
}

static void make(struct coord *c, const struct peer_schedule_wanted *m)
{
	struct schedule next =
		schedule_next(&c->schedule.last, c->epoch, m->step, m->steps, m->memory_every, m->storage_every);
	if (next.until > 2 * STEP_MAX + 1)
		return; /* no rank ever asks for such a step */
	c->schedule.last = next;
	log_debug("job %s: schedule %u of epoch %u: steps %lu to %lu, memory every %lu, storage every %lu", c->job,
		  next.number, next.epoch, (unsigned long)next.from, (unsigned long)next.until,
		  (unsigned long)next.memory_every, (unsigned long)next.storage_every);
	tell_all(c);
}

void coord_schedule_wanted(struct coord *c, struct coord_from from, const struct peer_schedule_wanted *m)
{
	if (!coord_current(c, from) || c->entered != c->epoch || c->resuming)
		return;
	if (c->schedule.epoch != c->epoch)
		c->schedule = (struct coord_schedule){.epoch = c->epoch};
	if (!hear(c, from.node, &m->held) || m->step == UINT64_MAX || c->schedule.epoch != c->epoch)
		return;
	if (!c->schedule.last.number || m->step >= c->schedule.last.wanted)
		make(c, m);
	else
		tell(c, from.node); /* another one has asked first */
}
