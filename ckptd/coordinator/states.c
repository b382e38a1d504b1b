/* Which state follows which, of a restore and of a spill. */
#include "coordinator/coordinator_private.h"

#include "base/transitions.h"

/* A restore may end at any time: the epoch is raised, or a rank cannot wait longer. If nothing is left of what counts,
 * what was given up is looked for. */
static const char *const restore_names[COORD_STEP_END] = {
	[COORD_IDLE] = "idle", [COORD_LOOK] = "look", [COORD_FETCH] = "fetch"};
static const uint32_t restore_next[COORD_STEP_END] = {
	[COORD_IDLE] = 1 << COORD_IDLE | 1 << COORD_LOOK,
	[COORD_LOOK] = 1 << COORD_IDLE | 1 << COORD_LOOK | 1 << COORD_FETCH,
	[COORD_FETCH] = 1 << COORD_IDLE | 1 << COORD_LOOK | 1 << COORD_FETCH,
};
static const struct transitions restore_transitions = {"restore", restore_names, restore_next, COORD_STEP_END};

/* What was made is dropped before the spill ends; once it is sealed, or before it is made, there is nothing to drop. */
static const char *const spill_names[SPILL_STATE_END] = {
	[SPILL_NONE] = "none", [SPILL_LOOK] = "look",   [SPILL_GATHER] = "gather",
	[SPILL_MAKE] = "make", [SPILL_WRITE] = "write", [SPILL_SEAL] = "seal",
	[SPILL_DROP] = "drop", [SPILL_CLEAR] = "clear", [SPILL_ENDED] = "ended",
};
static const uint32_t spill_next[SPILL_STATE_END] = {
	[SPILL_NONE] = 1 << SPILL_NONE | 1 << SPILL_LOOK | 1 << SPILL_ENDED,
	[SPILL_LOOK] = 1 << SPILL_NONE | 1 << SPILL_GATHER | 1 << SPILL_ENDED,
	[SPILL_GATHER] = 1 << SPILL_MAKE | 1 << SPILL_ENDED,
	[SPILL_MAKE] = 1 << SPILL_WRITE | 1 << SPILL_DROP,
	[SPILL_WRITE] = 1 << SPILL_SEAL | 1 << SPILL_DROP,
	[SPILL_SEAL] = 1 << SPILL_DROP | 1 << SPILL_ENDED,
	[SPILL_DROP] = 1 << SPILL_CLEAR | 1 << SPILL_ENDED,
	[SPILL_CLEAR] = 1 << SPILL_ENDED,
	[SPILL_ENDED] = 1 << SPILL_NONE | 1 << SPILL_LOOK,
};
static const struct transitions spill_transitions = {"spill", spill_names, spill_next, SPILL_STATE_END};

void coord_set_restore(struct coord *c, enum coord_step state)
{
	transitions_check(&restore_transitions, c->restore.state, state);
	c->restore.state = state;
}

void coord_set_spill(struct coord *c, enum coord_spill_state state)
{
	transitions_check(&spill_transitions, c->spill.state, state);
	c->spill.state = state;
}
