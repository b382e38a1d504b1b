#include "save/copies.h"

#include "config/setting.h"
#include "replication/room.h"

void copies_init(struct copies *c, const struct copied_job *of)
{
	*c = (struct copies){.of = *of};
}

unsigned copies_wanted(const struct copies *c)
{
	return c->of.peers->replica ? (unsigned)c->of.policy->copies : 0;
}

bool copies_are_ordered(const struct copies *c)
{
	return c->id.epoch && c->epoch == *c->of.epoch;
}

struct step_id copies_kept(const struct copies *c)
{
	return step_compare(c->replicated, c->durable) > 0 ? c->replicated : (struct step_id){0};
}

/* Its epoch is over, and whether all others said so, too, is not known here. */
static bool may_be_replicated(const struct copies *c)
{
	return c->held && step_compare(c->id, c->replicated) > 0 && step_compare(c->id, c->durable) > 0;
}

bool copies_keep(const struct copies *c, struct step_id id)
{
	struct step_id kept = copies_kept(c);
	if (!copies_wanted(c))
		return false;
	if (c->id.epoch && !step_compare(c->id, id) && (copies_are_ordered(c) || may_be_replicated(c)))
		return true;
	return kept.epoch && !step_compare(kept, id);
}

void copies_yield(struct copies *c)
{
	if (!copies_are_ordered(c))
		c->held = false;
}

void copies_order(struct copies *c, struct step_id id)
{
	c->id = id;
	c->epoch = *c->of.epoch;
	c->held = false;
}

void copies_replicated(struct copies *c, struct step_id id)
{
	struct step_id old = c->replicated;
	bool newer = step_compare(id, old) > 0;
	/* What this epoch has gone on from may be older: what was replicated before nobody could have. */
	if (!newer && !(copies_are_ordered(c) && !step_compare(id, c->id)))
		return;
	c->replicated = id;
	if (newer && old.epoch && c->of.peers->replica) /* nodes that were holders once */
		replica_forget(c->of.peers->replica, c->of.name, old);
}

void copies_durable(struct copies *c, struct step_id id)
{
	if (step_compare(id, c->durable) > 0)
		c->durable = id;
}
