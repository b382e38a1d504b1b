/* What the ranks of all nodes hold alike in a save, as the nodes report it (coord_vote.h). */
#include "coord_save.h"

#include <stdio.h>

void coord_votes(struct coord *c, struct coord_from from, const struct peer_votes *votes)
{
	struct coord_save *s = coord_save_hear(c, from, votes->id);
	char text[WIRE_TEXT_MAX];
	int rc = s && s->shown < LEVEL_CAPTURED ? coord_vote_add(c, &s->vote, votes) : 0;
	if (!rc)
		return;
	if (rc == -E2BIG)
		snprintf(text, sizeof(text),
			 "ranks hold more than %d different sets of replicas: they cannot be compared", VOTES_MAX);
	else
		snprintf(text, sizeof(text), "no memory to compare replicas");
	coord_save_fail(c, s, rc, text);
}

void coord_compared(struct coord *c, struct coord_from from, const struct peer_compared *compared)
{
	struct coord_save *s = coord_save_hear(c, from, compared->ask.id);
	char text[WIRE_TEXT_MAX];
	int rc = s && s->vote ? coord_vote_heard(c, s->vote, from.node, compared, text) : 0;
	if (rc)
		coord_save_fail(c, s, rc, text);
}
