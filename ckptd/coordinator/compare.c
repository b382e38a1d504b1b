/* What the ranks of all nodes hold alike in a save, as the nodes report it (coordinator/divergence.h). */
#include "base/clock.h"
#include "coordinator/save.h"

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
