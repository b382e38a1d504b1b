/* Store space: how full the store's file system is, whether the store's path still leads to it, and whether its lock stands, asked every
 * SPACE_EVERY_MS on the thread that reads back (a file system that does not answer must keep nobody else). */
#ifndef CKPTD_CHECKPOINT_STORE_SPACE_H
#define CKPTD_CHECKPOINT_STORE_SPACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SPACE_EVERY_MS = 10000 };

struct pool;
struct repo_place;
struct space;
struct store_lock;

struct space_view {
	bool known;
	uint64_t free_bytes, total_bytes;
	uint64_t asked_ns; /* when that was so (clock_now) */
};

/* A place of none: there is no store, and *out is NULL. What is found is told to the place and to the lock, too. pool: where it is asked.
 * 0 or -ENOMEM. */
int space_new(struct repo_place *place, struct store_lock *lock, struct pool *pool, struct space **out);
/* Asks when it is time; at each tick. */
void space_tick(struct space *space, uint64_t now);
struct space_view space_get(const struct space *space);
bool space_busy(const struct space *space);
/* After the pools have ended. */
void space_free(struct space *space);

#endif
