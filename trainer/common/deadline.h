/*
 * Deadlines: points of CLOCK_MONOTONIC in nanoseconds. A deadline is absolute so that it can be handed down
 * through calls without being stretched.
 */
#ifndef CKPT_TRAINER_DEADLINE_H
#define CKPT_TRAINER_DEADLINE_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

static inline int64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The deadline that lies `ms` milliseconds ahead. */
static inline int64_t deadline_in_ms(int64_t ms)
{
	return monotonic_ns() + ms * 1000000;
}

/* Milliseconds left, as poll() takes them: rounded up, 0 when the deadline has passed. */
static inline int deadline_left_ms(int64_t deadline)
{
	int64_t left = (deadline - monotonic_ns() + 999999) / 1000000;

	if (left <= 0)
		return 0;
	return left < INT_MAX ? (int)left : INT_MAX;
}

#endif
