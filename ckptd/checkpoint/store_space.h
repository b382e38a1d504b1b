/* Store space: how full the store's file system is, asked every SPACE_EVERY_MS on the thread that reads back (a file system that does not
 * answer must keep nobody else). */
#ifndef CKPTD_CHECKPOINT_STORE_SPACE_H
#define CKPTD_CHECKPOINT_STORE_SPACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SPACE_EVERY_MS = 10000 };

struct pool;
struct space;

struct space_view {
	bool known;
	uint64_t free_bytes, total_bytes;
	uint64_t asked_ns; /* when that was so (clock_now) */
};

/* store NULL: there is none, and *out is NULL. pool: where it is asked. 0 or -ENOMEM. */
int space_new(const char *store, struct pool *pool, struct space **out);
/* Asks when it is time; at each tick. */
void space_tick(struct space *space, uint64_t now);
struct space_view space_get(const struct space *space);
bool space_busy(const struct space *space);
/* After the pools have ended. */
void space_free(struct space *space);

#endif
