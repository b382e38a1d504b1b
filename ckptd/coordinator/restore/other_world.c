#include "coordinator/restore/other_world.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <stdlib.h>

/* A rank whose part nobody has, or that could not be found out; world: there is none. */
static uint32_t lacking(const struct coord_survey *survey, struct step_id id, uint32_t world)
{
	AUTO_FREE bool *held = calloc(max_u64(world, 1), sizeof(*held));
	for (size_t i = 0; held && i < survey->n; i++) {
		const struct coord_held *f = &survey->found[i];
		if (f->world == world && f->rank < world && !step_compare(f->id, id))
			held[f->rank] = true;
	}
	for (uint32_t r = 0; r < world; r++)
		if (!held || !held[r])
			return r;
	return world;
}

bool other_world_whole(const struct coord_survey *survey, struct step_id id, uint32_t world)
{
	return lacking(survey, id, world) == world;
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
	while (held && !other_world_whole(survey, held->id, held->world))
		held = newest_below(survey, world, wanted, back, &held->id);
	if (!held)
		return (struct step_id){0};
	*other = held->world;
	return held->id;
}

bool other_world_gap(const struct coord_survey *survey, uint32_t world, uint64_t wanted, const struct rollbacks *back,
		     struct step_id than, struct other_gap *gap)
{
	const struct coord_held *held = newest_below(survey, world, wanted, back, NULL);
	while (held && step_compare(held->id, than) > 0) {
		*gap = (struct other_gap){held->id, held->world, lacking(survey, held->id, held->world)};
		if (gap->rank < gap->world)
			return true;
		held = newest_below(survey, world, wanted, back, &held->id);
	}
	return false;
}

void other_world_pass_over(struct coord_held *held, size_t *n, struct step_id id, uint32_t world)
{
	size_t kept = 0;
	for (size_t i = 0; i < *n; i++)
		if (held[i].world != world || step_compare(held[i].id, id) != 0)
			held[kept++] = held[i];
	*n = kept;
}
