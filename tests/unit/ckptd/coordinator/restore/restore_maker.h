/* A restore of the coordinator of coordinator_maker.h, step by step. */
#ifndef CKPT_TESTS_RESTORE_MAKER_H
#define CKPT_TESTS_RESTORE_MAKER_H

#include "ckptd/coordinator/coordinator_maker.h"

void ask(uint64_t step);
void find(uint32_t node, struct step_id memory, unsigned nstored);
void survey(const struct coord_held *held, size_t n);
void find_all(struct step_id memory, unsigned nstored);
void bring(uint32_t node, struct step_id id, int rc, enum wire_source source, const char *text);
void bring_all(struct step_id id, int rc);
void expect_bring(struct step_id id, bool stored);
void expect_restored(struct step_id id, enum wire_source source);

#endif
