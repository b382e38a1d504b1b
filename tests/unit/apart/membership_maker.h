/* A membership of nodes that follow what they are told: for its tests. The host and the clock are fakes. */
#ifndef CKPT_TESTS_MEMBERSHIP_MAKER_H
#define CKPT_TESTS_MEMBERSHIP_MAKER_H

#include "control/membership/membership.h"
#include "fakes.h"

enum { NODES = 4, EACH = 2, WANT = 6, LEAST = 2, WAIT_S = 10 };

extern struct daemon membership_daemon;

/* What a node has been told, and follows once it has said so. */
extern struct follower {
	struct wire_plan plan;
	bool told_plan, quiesce, pause, flush, drained;
	bool over, copies_stay; /* END */
	unsigned drains;        /* orders of it */
	uint64_t after;         /* PAUSE */
	int away;
	char text[WIRE_TEXT_MAX];
} nodes[NODES];

void membership_maker_setup(void); /* nobody has offered anything */
void membership_maker_teardown(void);

void read_orders(void);
void report(uint32_t node, const struct peer_capacity *assignment);
/* What a node says that follows what it was told last, and has so many processes. */
struct peer_capacity assignment_of(uint32_t node, uint32_t processes);
void offer(uint32_t node, uint32_t processes);
void offer_spare(uint32_t node);
void tick(void);
/* All who were told of a plan say that they follow it. */
void follow(void);
/* The first n nodes offer EACH. */
void begin(uint32_t n);
/* With EACH ranks, by the plan that holds: it is let in. */
void node_join(uint32_t node);
void lose(uint32_t node);
void quiesced(uint32_t node, int rc);
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
