/* What is told of steps that are newer than what is restored, and cannot be had. */
#include "coordinator/coordinator_private.h"
#include "coordinator/restore/other_world.h"

#include <stdio.h>
#include <string.h>

enum { GAPS_TOLD = 3 };

void coord_add_why(char *why, const char *text)
{
	size_t at = strlen(why);
	if (*text && at + 8 < WIRE_TEXT_MAX)
		snprintf(why + at, WIRE_TEXT_MAX - at, "%s%.*s", at ? "; " : "", (int)(WIRE_TEXT_MAX - at - 3), text);
}

/* Newer steps that some node has a part of, since the last choice. */
void coord_tell_gaps(struct coord *c, const uint32_t *owners, struct step_id before)
{
	struct coord_restore *r = &c->restore;
	struct candidates_gap gaps[GAPS_TOLD];
	uint32_t n = candidates_gaps(&r->candidates, c->world, owners, r->choice.id, before, gaps, GAPS_TOLD);
	for (uint32_t i = 0; i < n; i++) {
		char text[WIRE_TEXT_MAX];
		snprintf(text, sizeof(text), "step %lu epoch %u: nobody has the part of rank %u",
			 (unsigned long)gaps[i].id.step, gaps[i].id.epoch, gaps[i].rank);
		coord_add_why(r->choice.why, text);
	}
}

struct coord_survey coord_held_of(const struct coord_restore *r)
{
	return (struct coord_survey){.found = r->held, .n = r->nheld};
}

void coord_tell_other_gap(struct coord *c)
{
	struct coord_restore *r = &c->restore;
	struct coord_survey held = coord_held_of(r);
	struct other_gap gap;
	char text[WIRE_TEXT_MAX];
	if (r->step == STEP_NEWEST_HEALTHY || !other_world_gap(&held, c->world, r->step, &r->back, r->choice.id, &gap))
		return;
	snprintf(text, sizeof(text), "step %lu epoch %u of a world of %u: nobody has the part of rank %u",
		 (unsigned long)gap.id.step, gap.id.epoch, gap.world, gap.rank);
	if (!strstr(r->choice.why, text))
		coord_add_why(r->choice.why, text);
}
