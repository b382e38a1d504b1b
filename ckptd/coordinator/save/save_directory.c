/* The directory of a save, as the daemon of the coordinator makes it, writes its manifest, and clears it away. */
#include "coordinator/save/save.h"

/* Once it is known who writes which part, which may have this save written before it is known here. False: it is not. */
static bool order_writes(struct coord *c, struct step_id id)
{
	struct peer_order order = {.type = PEER_WRITE, .save = {.id = id}};
	bool known = coord_parts_known(c);
	struct coord_save *s = coord_save_find(c, id);
	if (!s || s->place != PLACE_MADE || s->ordered)
		return true;
	if (!known) {
		if (c->undivided_rc)
			coord_save_fail_storage(c, s, c->undivided_rc, c->undivided.text);
		return false;
	}
	s->ordered = true;
	order.save.flag = s->found;
	coord_each(c, n)
	{
		order.save.parts = c->nodes[n].holdings.parts;
		coord_order(c, n, &order);
	}
	return true;
}

void coord_save_compare(struct coord *c, struct step_id id)
{
	struct peer_order order = {.type = PEER_WRITE, .save = {.id = id, .flag = true}};
	struct coord_save *s = coord_parts_known(c) ? coord_save_find(c, id) : NULL;
	coord_each(c, n)
	{
		if (!s || !(s->said[n] & 1u << SAID_READY))
			continue;
		s->said[n] &= (uint16_t) ~(1u << SAID_READY);
		s->ranks[SAID_READY] -= c->nodes[n].ranks;
		order.save.parts = c->nodes[n].holdings.parts;
		coord_order(c, n, &order);
	}
}

void coord_made(struct coord *c, struct step_id id, bool found)
{
	struct coord_save *s = coord_save_find(c, id);
	if (coord_spill_made(c, id, found) || !s || s->place != PLACE_MAKING)
		return;
	s->place = PLACE_MADE;
	s->found = found;
	s->ordered = false;
	order_writes(c, id);
	s = coord_save_find(c, id);
	if (s)
		coord_save_seal(c, s);
}

void coord_saves_write(struct coord *c)
{
	list_for_safe(it, &c->saves) {
		struct coord_save *s = save_of(it);
		if (s->ranks[SAID_READY] && coord_parts_known(c)) {
			coord_save_compare(c, s->id);
			continue;
		}
		if (s->place != PLACE_MADE || s->ordered)
			continue;
		if (!order_writes(c, s->id))
			return;
	}
}

void coord_sealed(struct coord *c, struct step_id id)
{
	struct coord_save *s = coord_save_find(c, id);
	if (coord_spill_sealed(c, id) || !s || s->place != PLACE_SEALING)
		return;
	s->place = PLACE_NONE;
	coord_save_show(c, s, LEVEL_DURABLE);
}

void coord_spoiled(struct coord *c, struct step_id id, int rc, const char *text)
{
	struct coord_save *s = coord_save_find(c, id);
	if (!coord_spill_spoiled(c, id, rc, text) && s && !s->failed)
		coord_save_fail_storage(c, s, rc, text);
}

static void free_forgotten(struct coord *c, struct coord_save *s)
{
	if (s->ranks[SAID_FORGOT] == c->attending && s->place == PLACE_NONE)
		coord_save_free(c, s);
}

static void remove_cleared(struct coord *c, struct coord_save *s)
{
	struct step_id id = s->id;
	if (s->place != PLACE_LEFT || s->ranks[SAID_CLEARED] != c->attending)
		return;
	s->place = PLACE_NONE;
	free_forgotten(c, s);
	c->orders->remove(c->orders->arg, id);
}

void coord_left(struct coord *c, struct step_id id, bool kept)
{
	struct coord_save *s = coord_save_find(c, id);
	if (coord_spill_left(c, id, kept))
		return;
	if (!s || s->place != PLACE_DROPPED) {
		c->orders->remove(c->orders->arg, id);
		return;
	}
	s->place = PLACE_LEFT;
	coord_each(c, n) coord_order_clear(c, n, id, kept);
	s = coord_save_find(c, id);
	if (s)
		remove_cleared(c, s); /* where nobody has a part in it any more */
}

void coord_cleared(struct coord *c, uint32_t node, struct step_id id)
{
	struct coord_save *s = coord_save_find(c, id);
	if (!s || s->place != PLACE_LEFT)
		return;
	coord_save_take(c, s, node, SAID_CLEARED);
	remove_cleared(c, s);
}

void coord_forgot(struct coord *c, uint32_t node, struct step_id id)
{
	struct coord_save *s = coord_save_find(c, id);
	if (!s)
		return;
	coord_save_take(c, s, node, SAID_FORGOT);
	free_forgotten(c, s);
	coord_saves_in_turn(c);
}
