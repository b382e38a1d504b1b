/* What the ranks of all nodes hold alike in a save, as the nodes report it (coordinator/save/divergence.h). */
#include "base/clock.h"
#include "coordinator/save/save.h"

#include <stdio.h>

void coord_replica_digests(struct coord *c, struct coord_from from, const struct peer_replica_digests *replica_digests)
{
	struct coord_save *s = coord_save_hear(c, from, replica_digests->id);
	char text[WIRE_TEXT_MAX];
	int rc = s && s->shown < LEVEL_CAPTURED ? coord_divergence_add(c, &s->vote, replica_digests) : 0;
	if (!rc)
		return;
	if (rc == -E2BIG)
		snprintf(text, sizeof(text),
			 "ranks hold more than %d different sets of replicas: they cannot be compared",
			 REPLICA_DIGESTS_MAX);
	else
		snprintf(text, sizeof(text), "no memory to compare replicas");
	coord_save_fail(c, s, rc, text);
}

void coord_compared(struct coord *c, struct coord_from from, const struct peer_compared *compared)
{
	struct coord_save *s = coord_save_hear(c, from, compared->ask.id);
	char text[WIRE_TEXT_MAX];
	int rc = s && s->vote ? coord_divergence_heard(c, s->vote, from.node, compared, text) : 0;
	if (rc)
		coord_save_fail(c, s, rc, text);
}

/* What is compared is so in the order of the steps: in a later one all may hold alike what an earlier one shows to be wrong. One that not all
 * have said to have copied may have been captured under an earlier coordinator, and is not told again. */
static bool awaits_older(const struct coord *c, const struct coord_save *s)
{
	for (struct list *it = s->link.prev; s->vote && it != &c->saves; it = it->prev) {
		const struct coord_save *older = save_of(it);
		if (older->id.epoch == s->id.epoch && older->copied && !older->failed && older->shown < LEVEL_CAPTURED)
			return true;
	}
	return false;
}

void coord_save_decide(struct coord *c, struct coord_save *s)
{
	char text[WIRE_TEXT_MAX];
	s->in_turn = awaits_older(c, s);
	if (s->in_turn)
		return;
	int rc = coord_divergence_trust(c, s->vote, s->id, text);
	if (rc == -EUCLEAN)
		coord_save_fail(c, s, rc, text);
	else if (!rc) /* else it is asked about, and may have failed already */
		coord_save_show(c, s, LEVEL_CAPTURED);
}

void coord_saves_in_turn(struct coord *c)
{
	list_for_safe(it, &c->saves) {
		struct coord_save *s = save_of(it);
		if (!s->in_turn || awaits_older(c, s))
			continue;
		s->in_turn = false;
		if (s->failed || s->shown >= LEVEL_CAPTURED || s->ranks[LEVEL_CAPTURED] != c->world)
			continue;
		coord_save_decide(c, s);
	}
}

bool coord_overdue(const struct coord *c, uint64_t ms, struct step_id *id, uint32_t *node)
{
	list_for(it, &c->saves) {
		*id = save_of(it)->id;
		if (coord_divergence_overdue(c, save_of(it)->vote, ms * CLOCK_NS_PER_MS, node))
			return true;
	}
	return false;
}

void coord_give_up(struct coord *c, struct step_id id, const char *who)
{
	char text[WIRE_TEXT_MAX];
	snprintf(text, sizeof(text), "replicas differ, and %s has not told in which tensor", who);
	list_for(it, &c->saves)
		if (!step_compare(save_of(it)->id, id) && save_of(it)->vote) {
			coord_save_fail(c, save_of(it), -EUCLEAN, text);
			return;
		}
}
