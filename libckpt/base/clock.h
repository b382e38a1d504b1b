/* The clock, one of the three interfaces through which the state machines see the world (disk, net, clock). The
 * simulator links its own implementation in place of clock.c. */
#ifndef CKPT_BASE_CLOCK_H
#define CKPT_BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_NS_PER_MS 1000000ull
#define CLOCK_NS_PER_S 1000000000ull

/* Monotonic nanoseconds (CLOCK_MONOTONIC: the same origin in every process of the node). Thread-safe. */
uint64_t clock_now(void);

/* The same, but it goes on while the machine is suspended (CLOCK_BOOTTIME): for what somebody elsewhere counts, too, as the
 * lease of a registry. It is never compared with clock_now(). Thread-safe. */
uint64_t clock_since_boot(void);

/* Nanoseconds since the Unix epoch, for records that people read. Never used to order events. */
uint64_t clock_wall(void);

/* A fault on purpose, of this process: the time of day is so far ahead, or behind where that is negative; 0: it is right
 * again. Thread-safe. */
void clock_wall_jump(int64_t ahead_ns);

/* Milliseconds from now to a deadline, rounded up, at least 0, for poll(2). */
int clock_ms_until(uint64_t deadline);

/* now + ns without wrapping; UINT64_MAX stays "never". */
uint64_t clock_deadline(uint64_t ns_from_now);

#endif
