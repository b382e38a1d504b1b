/* A muster of nodes that follow what they are told: for its tests. The chair and the clock are fakes. */
#ifndef CKPT_TESTS_MUSTER_MAKER_H
#define CKPT_TESTS_MUSTER_MAKER_H

#include "control/membership.h"
#include "fakes.h"

enum { NODES = 4, EACH = 2, WANT = 6, LEAST = 2, WAIT_S = 10 };

extern struct daemon muster_daemon;

/* What a node has been told, and follows once it has said so. */
extern struct follower {
	struct wire_plan plan;
	bool told_plan, settle, stop, pause, flush, drained;
	unsigned drains; /* orders of it */
	uint64_t after;  /* PAUSE */
	int away;
	char text[WIRE_TEXT_MAX];
} nodes[NODES];

void muster_maker_setup(void); /* nobody has offered anything */
void muster_maker_teardown(void);

void read_orders(void);
void report(uint32_t node, const struct peer_crew *crew);
/* What a node says that follows what it was told last, and has so many processes. */
struct peer_crew crew_of(uint32_t node, uint32_t processes);
void offer(uint32_t node, uint32_t processes);
void offer_spare(uint32_t node);
void tick(void);
/* All who were told of a plan say that they follow it. */
void follow(void);
/* The first n nodes offer EACH. */
void begin(uint32_t n);
/* With EACH ranks, by the plan that holds: it is let in. */
void attend(uint32_t node);
void lose(uint32_t node);
void settled(uint32_t node, int rc);
void shown(uint64_t step, uint32_t epoch, enum level_shown level);
/* The node's ranks wait in the next fence; they have begun saves up to this one. */
void paused(uint32_t node, uint64_t step);
/* All have entered, and a save comes in whose fence all of them wait, if they were asked to. */
void occasion(void);
/* Three nodes begin, and the second is lost for good: plan 2, of four ranks. */
void shrink(void);

void expect_ranks(uint32_t node, uint32_t number, uint32_t world, uint32_t n, const uint32_t *ranks);

#define EXPECT_RANKS(node, number, world, ...)                                                                         \
	expect_ranks(node, number, world, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                        \
		     (uint32_t[]){__VA_ARGS__})

#endif
