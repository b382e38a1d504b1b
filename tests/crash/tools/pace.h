/* What keeps the ranks of a job in step, as a collective would, and lets them agree on the last step: a file that they share. */
#ifndef CKPT_CRASH_PACE_H
#define CKPT_CRASH_PACE_H

#include "base/clock.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	PACE_RANKS = 64,
	PACE_MS = 200 /* a rank that is missing is not waited for any longer */
};

struct pace {
	_Atomic uint32_t bell;           /* futex */
	_Atomic uint64_t last;           /* the step after which all end; 0: not known */
	_Atomic uint64_t at[PACE_RANKS]; /* the step that the rank is about to make */
};

/* NULL: it said why on stderr. Mapped until the process ends. */
static inline struct pace *pace_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	void *p = fd < 0 || ftruncate(fd, sizeof(struct pace))
			  ? MAP_FAILED
			  : mmap(NULL, sizeof(struct pace), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		perror(path);
		p = NULL;
	}
	if (fd >= 0)
		close(fd);
	return p;
}

static inline void pace_ring(struct pace *pace)
{
	atomic_fetch_add(&pace->bell, 1);
	syscall(SYS_futex, &pace->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static inline bool pace_all_at(const struct pace *pace, int world, uint64_t step)
{
	for (int r = 0; r < world; r++)
		if (atomic_load(&pace->at[r]) < step)
			return false;
	return true;
}

/* Waits until every rank is about to make this step. */
static inline void pace_keep(struct pace *pace, int rank, int world, uint64_t step)
{
	uint64_t deadline = clock_deadline(PACE_MS * CLOCK_NS_PER_MS);
	atomic_store(&pace->at[rank], step);
	pace_ring(pace);
	for (;;) {
		uint32_t seen = atomic_load(&pace->bell);
		int left = clock_ms_until(deadline);
		if (pace_all_at(pace, world, step) || left <= 0)
			return;
		struct timespec wait = {.tv_sec = left / 1000, .tv_nsec = (long)(left % 1000) * 1000000};
		syscall(SYS_futex, &pace->bell, FUTEX_WAIT, seen, &wait, NULL, 0);
	}
}

/* The first to say so decides after which step all end. */
static inline void pace_end(struct pace *pace, uint64_t step)
{
	uint64_t none = 0;
	atomic_compare_exchange_strong(&pace->last, &none, step);
}

static inline bool pace_ended(const struct pace *pace, uint64_t step)
{
	uint64_t last = atomic_load(&pace->last);
	return last && step >= last;
}

#endif
