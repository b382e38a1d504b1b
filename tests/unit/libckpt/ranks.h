/* A ranks: the sessions of all ranks of a small job, in one process, with state of every kind. */
#ifndef CKPT_TESTS_RANKS_H
#define CKPT_TESTS_RANKS_H

#include "ckpt.h"
#include "fake_daemon.h"

enum {
	RANKS_ROWS = 512, /* of w: 3 leaves, so that it is split over the ranks */
	RANKS_COLS = 96,
	RANKS_FLAT = 1001,
	RANKS_BOX_ROWS = 8, /* per rank, of 20 columns that stand 32 elements apart */
	RANKS_BOX_COLS = 20,
	RANKS_BOX_STRIDE = 32,
};

struct ranks_state {
	float *w;    /* replicated, whole */
	float *flat; /* this rank's share of [RANKS_FLAT] */
	uint64_t flat_start, flat_count;
	uint16_t *box;     /* rows of a larger matrix in memory */
	uint8_t clock[16]; /* blob of the job */
	uint8_t rng[24];   /* blob of the rank */
};

struct ranks {
	struct fake *f;
	uint32_t world;
	ckpt *s[FAKE_WORLD_MAX];
	struct ranks_state state[FAKE_WORLD_MAX];
};

/* Opens all sessions; opts may be NULL (job, socket, rank and world are set here). */
void ranks_open(struct ranks *c, uint32_t world, const ckpt_options *opts);
/* Registers the state of all ranks. */
void ranks_register(struct ranks *c);
/* All ranks join at once; all must succeed. */
void ranks_join(struct ranks *c);
/* Until all slots of a rank are pinned: they become so one after the other, behind its join, and saves find no other one until then. */
void ranks_await_slots(struct ranks *c, uint32_t rank);
/* The three. */
void ranks_up(struct ranks *c, uint32_t world, const ckpt_options *opts);
void ranks_down(struct ranks *c);

/* Fills the state with values that depend on rank (where not replicated) and seed. */
void ranks_fill(struct ranks *c, unsigned seed);
/* Whether the state of all ranks is that of the seed. */
bool ranks_is(struct ranks *c, unsigned seed);

/* All ranks begin and fence the step; nothing may fail. Leaves the slots as they are. */
void ranks_save(struct ranks *c, uint64_t step, ckpt_target target);
/* The one slot of the rank that holds the step. */
uint32_t ranks_slot(struct ranks *c, uint32_t rank, uint64_t step);
/* All ranks restore at once; the results in rc[world]. */
void ranks_restore(struct ranks *c, uint64_t step, int *rc, ckpt_restored *out);

#endif
