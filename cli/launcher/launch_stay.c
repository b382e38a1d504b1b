#include "launcher/launch.h"

#include "base/clock.h"

/* How long the ranks of other nodes may be at work before it is said that this one stays for them: ends lie apart by less. */
#define SAY_NS CLOCK_NS_PER_S

static bool any_failed(const struct launch *launch)
{
	for (uint32_t r = 0; r < launch->nranks; r++)
		if (launch->ranks[r].status)
			return true;
	return false;
}

/* Without an arena no rank has been at work, and the daemon knows of none. */
bool stay_wanted(const struct launch *launch)
{
	const struct launch_options *o = &launch->options;
	return o->nodes > 1 && !o->least && launch->held.count && ranks_none_left(launch) && !any_failed(launch) &&
	       launch->link.state == UPLINK_UP && !launch->over;
}

void stay_tick(struct launch *launch, uint64_t now)
{
	if (!stay_wanted(launch))
		return;
	if (!launch->stays_ns)
		launch->stays_ns = now;
	if (launch->told_stays || now - launch->stays_ns < SAY_NS)
		return;
	launch->told_stays = true;
	launch_say(launch, "the ranks of this node have finished: it stays until those of the others have");
}

uint64_t stay_next(const struct launch *launch)
{
	bool due = launch->stays_ns && !launch->told_stays && stay_wanted(launch);
	return due ? launch->stays_ns + SAY_NS : UINT64_MAX;
}

void stay_end(struct launch *launch)
{
	if (launch->stays_ns && !launch->over && launch->stop == STOP_NONE)
		launch_warn(launch,
			    "%s: nobody would say when the others have finished, and this node does not wait for them",
			    launch->link.why.text);
}
