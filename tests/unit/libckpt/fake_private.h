/* The fake daemon inside. */
#ifndef CKPT_TESTS_FAKE_PRIVATE_H
#define CKPT_TESTS_FAKE_PRIVATE_H

#include "base/channel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fake_daemon.h"

enum { CONNS = 16 };

struct conn {
	int sock; /* -1: unused */
	bool greeted, registered, wants_join, wants_restore;
	uint32_t rank, register_seq, join_seq, restore_seq;
	struct wire_join join;
	bool moved; /* has not been told yet */
};

struct memory {
	int fd, fd_read;
	uint8_t *base;
	uint64_t size;
	struct registration reg;
	struct layout layout;
};

struct fake {
	char dir[64], path[96];
	uint32_t world, epoch;
	struct fake_manners manners;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop, alive, dying;
	int wake, listener, doorbell;
	struct conn conns[CONNS];
	struct memory memory[FAKE_WORLD_MAX];
	struct registration regs[FAKE_WORLD_MAX]; /* of REGISTER */
	bool registered[FAKE_WORLD_MAX];
	unsigned welcomed, seen[WIRE_TYPE_END];
	struct wire_hello hellos[FAKE_WORLD_MAX];
	struct wire_join joins[FAKE_WORLD_MAX];
};

/* fake_arenas.c; with the lock held */
void memory_drop(struct memory *m);
void memory_make(struct fake *f, uint32_t rank, struct layout *layout);
void memory_adopt(struct fake *f, uint32_t rank, int fd);
void memory_wake(struct memory *m);
static inline struct arena_head *memory_head(struct memory *m)
{
	return (struct arena_head *)m->base;
}

#endif
