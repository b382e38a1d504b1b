/*
 * libckpt for tests of the trainer, in memory: ranks are threads of one process, saves are copies, the daemon is a
 * struct. The functions of ckpt.h are defined here and take the place of the library's.
 */
#ifndef CKPT_TESTS_FAKE_CKPT_H
#define CKPT_TESTS_FAKE_CKPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt.h"

enum { FAKE_RANKS = 4, FAKE_SAVES = 64, FAKE_KILLS = 4 };

struct fake_save {
	uint64_t step;
	uint32_t epoch;
	ckpt_target target;
	ckpt_health health;          /* as it was marked last; 0: not at all */
	uint64_t digest[FAKE_RANKS]; /* of the registered bytes at begin; 0: not begun */
	uint64_t alike[FAKE_RANKS];  /* of those that are replicas; 0: they are not compared */
	void *copy[FAKE_RANKS];      /* of the registered bytes at the fence; NULL: not fenced */
};

/* What a rank's thread shall die of: its fence of this step fails as nothing else does. */
struct fake_kill {
	int rank;
	uint64_t step;
	bool done;
};

struct fake_job {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int world;
	uint32_t epoch;
	unsigned int joined; /* complete barriers */
	bool joining[FAKE_RANKS];
	uint8_t addresses[FAKE_RANKS][CKPT_ADDRESS_MAX];
	uint32_t address_len[FAKE_RANKS];
	ckpt *session[FAKE_RANKS];
	struct fake_save saves[FAKE_SAVES];
	int save_count;

	/* what a test asks for */
	struct fake_kill kills[FAKE_KILLS];
	int kill_count;
	int begin_error; /* of ckpt_begin(), for steps in [begin_from, begin_to) */
	uint64_t begin_from, begin_to;
	int begin_of;       /* of this rank alone, and of no other, where it is not 0 */
	int write_error;    /* of ckpt_wait() for what is to be on storage */
	int restore_error;  /* of ckpt_restore() where a step, or the newest healthy one, is not found; 0: -ENOENT */
	int join_ms;        /* how long ckpt_join() waits at most, 20000 */
	int shrunk;         /* ranks that the job was begun with and has lost since, the first ones: join tells it */
	bool no_store;      /* the daemon has none */
	uint64_t due_every; /* to memory, says ckpt_due(); 0: the interval is not automatic */
	bool forgets;       /* a restore leaves out what belongs to a rank: blobs of that scope become zero */
	uint64_t stop_at;   /* the operator asks rank 1 to stop when it is at this step; 0: never */

	/* what a test looks at */
	uint64_t torn;          /* captures during which the state was changed */
	int restores;           /* by all ranks */
	int losses, not_finite; /* that all ranks have handed over; of them no numbers */
};

/* One job at a time. */
void fake_start(struct fake_job *job, int world);
void fake_end(struct fake_job *job);
/* A rank's thread has ended as a process would: its session is closed, all others are told. */
void fake_lost(struct fake_job *job, int rank);
/* fake_saves.c: how often ranks have noted that they connected to the others, and that it was over. */
int fake_connects(void);
/* All ranks have saved it, and it may be restored. */
bool fake_complete(const struct fake_job *job, const struct fake_save *save);
/* What ckpt_begin() of a rank returns at this step; 0: nothing is wrong. */
int fake_begin_error(const struct fake_job *job, int rank, uint64_t step);
/* The order in which they are made. */
bool fake_newer(const struct fake_save *a, const struct fake_save *b);
/* Replicas differ in it, or have differed before it in the same epoch. */
bool fake_deviates(const struct fake_job *job, const struct fake_save *save);
/* The newest step that all ranks have saved to the target, 0: none. */
uint64_t fake_saved(const struct fake_job *job, ckpt_target target);

#endif
