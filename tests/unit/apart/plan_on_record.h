/* What the tests of a membership whose last plan is on record, or is to be, have in common. */
#ifndef CKPT_TESTS_PLAN_ON_RECORD_H
#define CKPT_TESTS_PLAN_ON_RECORD_H

#include "membership_maker.h"

/* Records are written when recorded() says so. */
void plan_on_record_setup(void);
void plan_on_record_teardown(void);

/* The plan that holds. */
uint32_t plan_now(void);
void recorded(uint32_t number);
/* Plan 7 of four ranks is on record: the first two on n0, the others on n2, which were 4 and 5 before. */
void put_on_record(void);
/* What a node says that has EACH ranks by a plan, from `first` on; that follows one and has none. */
struct peer_capacity by_plan(uint32_t plan, uint32_t world, uint32_t first);
void says(uint32_t node, uint32_t plan, uint32_t world, uint32_t first);
void says_idle(uint32_t node, uint32_t plan);

#endif
