/* A rank for ckpt run that has next to no state, and trains as the program says until it is asked to stop. */
#ifndef TESTS_INTEGRATION_ONE_RANK_H
#define TESTS_INTEGRATION_ONE_RANK_H

#include "ckpt.h"

#include <stdbool.h>
#include <stdint.h>

enum { ONE_RANK_MS = 1000000 };

/* Of CLOCK_MONOTONIC, which all ranks have alike. */
int64_t now_ns(void);
void sleep_until(int64_t ns);

/* usage: begins with the name of the program; it is printed unless called_well. Returns the exit status. */
int one_rank(const char *usage, bool called_well, void (*train)(ckpt *s, const void *arg), const void *arg);

#endif
