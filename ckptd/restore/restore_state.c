#include "restore/restore_private.h"

#include "base/transitions.h"

static const char *const state_names[RESTORE_STATE_END] = {
	[RESTORE_IDLE] = "idle",       [RESTORE_LOOK] = "look",   [RESTORE_FOUND] = "found",
	[RESTORE_OWN] = "own",         [RESTORE_CLAIM] = "claim", [RESTORE_FORMER] = "former",
	[RESTORE_PEER] = "peer",       [RESTORE_RECUT] = "recut", [RESTORE_STORAGE] = "storage",
	[RESTORE_FETCHED] = "fetched",
};

/* Each may be cancelled. Of FOUND and FETCHED, the coordinator names a step, or another one. */
#define ANY (1 << RESTORE_IDLE)
static const uint32_t next_states[RESTORE_STATE_END] = {
	[RESTORE_IDLE] = ANY | 1 << RESTORE_LOOK | 1 << RESTORE_FOUND,
	[RESTORE_LOOK] = ANY | 1 << RESTORE_FOUND,
	[RESTORE_FOUND] = ANY | 1 << RESTORE_OWN | 1 << RESTORE_CLAIM,
	[RESTORE_OWN] = ANY | 1 << RESTORE_CLAIM | 1 << RESTORE_FETCHED,
	[RESTORE_CLAIM] = ANY | 1 << RESTORE_FORMER | 1 << RESTORE_PEER | 1 << RESTORE_RECUT | 1 << RESTORE_FETCHED,
	[RESTORE_FORMER] = ANY | 1 << RESTORE_PEER | 1 << RESTORE_FETCHED,
	[RESTORE_PEER] = ANY | 1 << RESTORE_STORAGE | 1 << RESTORE_FETCHED,
	[RESTORE_RECUT] = ANY | 1 << RESTORE_RECUT | 1 << RESTORE_FETCHED,
	[RESTORE_STORAGE] = ANY | 1 << RESTORE_FETCHED,
	[RESTORE_FETCHED] = ANY | 1 << RESTORE_OWN | 1 << RESTORE_CLAIM,
};

static const struct transitions transitions = {"restore", state_names, next_states, RESTORE_STATE_END};

void restore_set_state(struct restore *restore, enum restore_state state)
{
	transitions_check(&transitions, restore->state, state);
	restore->state = state;
}
