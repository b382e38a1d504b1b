/* What becomes of saves when the epoch is raised, when the world is held, and when nodes come and go. */
#include "coordinator/save/save.h"

#include <stdio.h>

static bool has_all_ranks(const struct coord *c)
{
	coord_each(c, n) return c->nodes[n].ranks == c->world;
	return false;
}

/* What was copied on all nodes before goes on. Where one node has all ranks it freezes all at once, and sees for itself. */
void coord_saves_poison(struct coord *c)
{
	char text[WIRE_TEXT_MAX];
	snprintf(text, sizeof(text), "epoch %u began before every rank was captured", c->epoch);
	list_for_safe(it, &c->saves) {
		struct coord_save *s = save_of(it);
		if (s->failed || s->shown >= LEVEL_CAPTURED || s->copied || has_all_ranks(c))
			continue;
		coord_save_fail(c, s, -ESTALE, text);
	}
}

void coord_saves_hold(struct coord *c)
{
	if (c->attending == c->world)
		return;
	list_for_safe(it, &c->saves) {
		struct coord_save *s = save_of(it);
		if (s->place == PLACE_MAKING || s->place == PLACE_MADE)
			coord_save_fail(c, s, -ENODEV, "a node that has a part of it is lost");
	}
}

/* Ranks have come to another node, and the one that had them has yet to let go: nobody knows who would write what. */
void coord_saves_crowd(struct coord *c)
{
	if (c->attending <= c->world)
		return;
	list_for_safe(it, &c->saves) {
		struct coord_save *s = save_of(it);
		if (s->place == PLACE_MAKING || (s->place == PLACE_MADE && !s->ordered))
			coord_save_fail(c, s, -ENODEV, SAVE_MOVES_TEXT);
	}
}

static void unsay(const struct coord *c, struct coord_save *s, uint32_t node)
{
	for (unsigned what = 0; what < SAID_END; what++)
		if (s->said[node] & 1u << what)
			s->ranks[what] -= c->nodes[node].ranks;
	s->said[node] = 0;
}

/* What is cleared away waits for all who join; one that has come anew has no part in it, or has not heard of that. */
void coord_saves_node_join(struct coord *c, uint32_t node)
{
	list_for_safe(it, &c->saves)
		if (save_of(it)->place == PLACE_LEFT)
			coord_order_clear(c, node, save_of(it)->id, true);
}

/* A commit that others have their part of cannot be completed, unless all of them are there. */
void coord_saves_leave(struct coord *c, uint32_t node)
{
	uint32_t left = c->attending - c->nodes[node].ranks;
	list_for_safe(it, &c->saves) {
		struct coord_save *s = save_of(it);
		struct step_id id = s->id;
		unsay(c, s, node);
		if (s->place == PLACE_LEFT && s->ranks[SAID_CLEARED] == left) {
			s->place = PLACE_NONE;
			c->orders->remove(c->orders->arg, id);
		}
		if (s->place == PLACE_NONE && s->ranks[SAID_FORGOT] && s->ranks[SAID_FORGOT] == left) {
			coord_save_free(c, s);
		} else if (s->place == PLACE_MAKING || s->place == PLACE_MADE) {
			coord_save_fail(c, s, -ENODEV, "a node was lost before it was on storage");
		}
	}
}
