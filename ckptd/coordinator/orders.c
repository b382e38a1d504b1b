/* What nodes are told, as they are sent it (format/message/peer_coord.h). */
#include "coordinator/coordinator_private.h"

#include <stdio.h>
#include <string.h>

void coord_order(struct coord *c, uint32_t node, struct peer_order *order)
{
	memcpy(order->job, c->job, sizeof(order->job));
	c->orders->emit(c->orders->arg, node, order);
}

void coord_order_word(struct coord *c, uint32_t node, enum peer_type type, struct peer_word word, const char *text)
{
	struct peer_order order = {.type = type, .word = word};
	snprintf(order.word.text, sizeof(order.word.text), "%s", text);
	coord_order(c, node, &order);
}

void coord_order_save(struct coord *c, uint32_t node, enum peer_type type, struct step_id id)
{
	coord_order(c, node, &(struct peer_order){.type = type, .save.id = id});
}

void coord_order_failure(struct coord *c, uint32_t node, enum peer_type type, struct step_id id, bool storage, int rc,
			 const char *text)
{
	struct peer_order order = {.type = type, .save = {.id = id, .rc = rc, .flag = storage}};
	snprintf(order.save.text, sizeof(order.save.text), "%s", text);
	coord_order(c, node, &order);
}

void coord_order_level(struct coord *c, uint32_t node, struct step_id id, enum level_shown level)
{
	coord_order(c, node, &(struct peer_order){.type = PEER_LEVEL, .save = {.id = id, .level = level}});
}

void coord_order_clear(struct coord *c, uint32_t node, struct step_id id, bool kept)
{
	coord_order(c, node, &(struct peer_order){.type = PEER_CLEAR, .save = {.id = id, .flag = kept}});
}
