#include "coordinator/other_world.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <stdlib.h>

static bool holds_all(const struct coord_survey *survey, struct step_id id, uint32_t world)
{
	AUTO_FREE bool *held = calloc(max_u64(world, 1), sizeof(*held));
	uint32_t n = 0;
	for (size_t i = 0; held && i < survey->n; i++) {
		const struct coord_held *f = &survey->found[i];
		if (f->world != world || f->rank >= world || held[f->rank] || step_compare(f->id, id) != 0)
			continue;
		held[f->rank] = true;
		n++;
	}
	return n == world;
}

/* The newest below. */
static const struct coord_held *newest_below(const struct coord_survey *survey, uint32_t world, uint64_t wanted,
					     const struct rollbacks *back, const struct step_id *below)
{
	const struct coord_held *newest = NULL;
	for (size_t i = 0; i < survey->n; i++) {
		const struct coord_held *f = &survey->found[i];
		bool fits = f->world != world && (wanted > STEP_MAX || f->id.step == wanted) &&
			    !rollbacks_give_up(back, f->id);
		if (fits && (!below || step_compare(f->id, *below) < 0) &&
		    (!newest || step_compare(f->id, newest->id) > 0))
			newest = f;
	}
	return newest;
}

/* Few steps are held of a job, so that it is not looked through often. */
struct step_id other_world_newest(const struct coord_survey *survey, uint32_t world, uint64_t wanted,
				  const struct rollbacks *back, uint32_t *other)
{
	const struct coord_held *held = newest_below(survey, world, wanted, back, NULL);
	while (held && !holds_all(survey, held->id, held->world))
		held = newest_below(survey, world, wanted, back, &held->id);
	if (!held)
		return (struct step_id){0};
	*other = held->world;
	return held->id;
}
