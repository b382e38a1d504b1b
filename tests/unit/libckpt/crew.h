/* A crew: the sessions of all ranks of a small job, in one process, with state of every kind. */
#ifndef CKPT_TESTS_CREW_H
#define CKPT_TESTS_CREW_H

#include "ckpt.h"
#include "fake_daemon.h"

enum {
	CREW_ROWS = 512, /* of w: 3 leaves, so that it is split over the ranks */
	CREW_COLS = 96,
	CREW_FLAT = 1001,
	CREW_BOX_ROWS = 8, /* per rank, of 20 columns that stand 32 elements apart */
	CREW_BOX_COLS = 20,
	CREW_BOX_STRIDE = 32,
};

struct crew_state {
	float *w;    /* replicated, whole */
	float *flat; /* this rank's share of [CREW_FLAT] */
	uint64_t flat_start, flat_count;
	uint16_t *box;     /* rows of a larger matrix in memory */
	uint8_t clock[16]; /* blob of the job */
	uint8_t rng[24];   /* blob of the rank */
};

struct crew {
	struct fake *f;
	uint32_t world;
	ckpt *s[FAKE_WORLD_MAX];
	struct crew_state state[FAKE_WORLD_MAX];
};

/* Opens all sessions; opts may be NULL (job, socket, rank and world are set here). */
void crew_open(struct crew *c, uint32_t world, const ckpt_options *opts);
/* Registers the state of all ranks. */
void crew_register(struct crew *c);
/* All ranks join at once; all must succeed. */
void crew_join(struct crew *c);
/* The three. */
void crew_up(struct crew *c, uint32_t world, const ckpt_options *opts);
void crew_down(struct crew *c);

/* Fills the state with values that depend on rank (where not replicated) and seed. */
void crew_fill(struct crew *c, unsigned seed);
/* Whether the state of all ranks is that of the seed. */
bool crew_is(struct crew *c, unsigned seed);

/* All ranks begin and fence the step; nothing may fail. Leaves the slots as they are. */
void crew_save(struct crew *c, uint64_t step, ckpt_target target);
/* The one slot of the rank that holds the step. */
uint32_t crew_slot(struct crew *c, uint32_t rank, uint64_t step);
/* All ranks restore at once; the results in rc[world]. */
void crew_restore(struct crew *c, uint64_t step, int *rc, ckpt_restored *out);

#endif
