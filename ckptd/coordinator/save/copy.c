/* Copies on other nodes, one save at a time: all nodes are ordered to send their ranks' parts of it, and answer that all copies are held,
 * or that they could not be made. The level is shown when all have said the former. The next one is begun when all have answered, so
 * that no holder gives up what a level may still be shown for. */
#include "coordinator/coordinator_private.h"

void coord_copy_forget(struct coord *c)
{
	bool told = c->copy.held || c->copy.ended;
	c->copy = (struct coord_copy){0};
	if (told)
		coord_each(c, n) c->nodes[n].copy_held = c->nodes[n].copy_ended = false;
}

void coord_copy_begin(struct coord *c, struct step_id id)
{
	coord_copy_forget(c);
	c->copy.id = id;
	coord_each(c, n) coord_order_save(c, n, PEER_COPY, id);
}

void coord_copy_restored(struct coord *c, struct step_id id)
{
	c->restored_in = c->epoch;
	coord_copy_begin(c, id);
}

/* The ranks have gone on from something older, or are to: beside that, and what was replicated before, the copies of this would take the last
 * slot, and no save could ever begin again. */
static bool was_passed_over(const struct coord *c, struct step_id id)
{
	return (c->restored_in == c->epoch && id.epoch < c->epoch) || rollbacks_give_up(&c->back, id);
}

void coord_copy_next(struct coord *c)
{
	struct step_id id = coord_newest_captured(c);
	bool running = c->copy.id.epoch && (c->copy.ended < c->world || c->copy.showing);
	if (id.epoch && !running && !was_passed_over(c, id) && step_compare(id, c->copy.id) > 0)
		coord_copy_begin(c, id);
}

/* NULL: it is of another save than the one that is copied now. */
static struct coord_node *answer(struct coord *c, struct coord_from from, struct step_id id)
{
	if (!coord_current(c, from) || !c->copy.id.epoch || step_compare(id, c->copy.id) != 0)
		return NULL;
	struct coord_node *n = &c->nodes[from.node];
	c->copy.ended += n->copy_ended ? 0 : n->ranks;
	n->copy_ended = true;
	return n;
}

void coord_replicated(struct coord *c, struct coord_from from, struct step_id id)
{
	struct coord_node *n = answer(c, from, id);
	if (!n)
		return;
	c->copy.held += n->copy_held ? 0 : n->ranks;
	n->copy_held = true;
	if (c->copy.held == c->world && !c->copy.shown) {
		c->copy.shown = c->copy.showing = true;
		coord_show_replicated(c, id);
		c->copy.showing = false;
	}
	coord_copy_next(c);
}

void coord_recall(struct coord *c, struct step_id id)
{
	if (step_compare(id, c->replicated) <= 0)
		return;
	c->replicated = id;
	coord_each(c, n) coord_order_save(c, n, PEER_PIN_REPLICATED, id);
}

void coord_pin(struct coord *c, uint32_t node)
{
	if (c->replicated.epoch)
		coord_order_save(c, node, PEER_PIN_REPLICATED, c->replicated);
}

void coord_uncopied(struct coord *c, struct coord_from from, struct step_id id)
{
	if (answer(c, from, id))
		coord_copy_next(c);
}
