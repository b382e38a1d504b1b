/* A drill: the ranks of a node join, and then save what the test says and when. */
#ifndef CKPT_SIM_DRILL_H
#define CKPT_SIM_DRILL_H

#include "node.h"

enum { DRILL_RANKS = 2, DRILL_ROUNDS = 20000 };

/* A turn of the daemon; without `disk` the disk does nothing. */
void drill_turn(struct node *node, bool disk);
void drill_start(struct node *node, unsigned slots, uint64_t seed);
/* What a rank is shown of a step; *error -ENOENT: nothing. */
int drill_shown(const struct node *node, uint32_t rank, uint64_t step, int *error);
/* One rank begins the step; 0 or -EBUSY: it found no slot. drill_capture ends its copy, and fences. */
int drill_begin(struct node *node, uint32_t rank, uint64_t step, uint32_t target);
void drill_capture(struct node *node, uint32_t rank);
/* All ranks save the step, and it is captured. 0 or -EBUSY. */
int drill_save(struct node *node, uint64_t step, uint32_t target);
/* Every rank is shown this. */
void drill_expect(const struct node *node, uint64_t step, int level, int error);
/* The disk works again, until nothing is left to do. */
void drill_finish(struct node *node);
void drill_end(struct node *node);

#endif
