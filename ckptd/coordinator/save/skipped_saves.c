/* Steps that a rank had no slot for. It never begins them: while others waited for it they would hold slots, lack them in turn for the step
 * that it does begin, and so on for ever. What nodes have told of fails at once, everywhere; of what nobody has told of the last few are
 * remembered, for a node that comes with its part. The same holds for a step that there is no memory to remember. */
#include "coordinator/save/save.h"

#include <stdio.h>

const struct coord_left_out *coord_was_left_out(const struct coord *c, struct step_id id)
{
	for (unsigned i = 0; i < COORD_LEFT_OUT; i++)
		if (!step_compare(c->left_out[i].id, id))
			return &c->left_out[i];
	return NULL;
}

static void note(struct coord *c, struct step_id id, int rc, const char *why)
{
	c->left_out[c->nleft_out++ % COORD_LEFT_OUT] = (struct coord_left_out){.id = id, .rc = rc, .why = why};
}

void coord_leave_out(struct coord *c, struct step_id id, int rc, const char *why)
{
	note(c, id, rc, why);
	coord_each(c, n)
	{
		coord_order_failure(c, n, PEER_FAIL, id, false, rc, why);
		coord_order_clear(c, n, id, true);
	}
}

void coord_left_out(struct coord *c, struct coord_from from, struct step_id id)
{
	char text[WIRE_TEXT_MAX];
	if (!coord_current(c, from) || id.epoch != c->epoch || coord_was_left_out(c, id))
		return;
	struct coord_save *s = coord_save_find(c, id);
	if (s && s->copied)
		return; /* it was begun all the same */
	note(c, id, -ECANCELED, "a rank of another node had no free slot for this step");
	snprintf(text, sizeof(text), "a rank of another node had no free slot for step %lu", (unsigned long)id.step);
	if (s && !s->failed)
		coord_save_fail(c, s, -ECANCELED, text);
}
