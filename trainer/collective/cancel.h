/*
 * What ends a wait: the news that the job's epoch moved on. The library's service thread brings it, the training
 * thread learns of it from a descriptor that its ring watches.
 */
#ifndef CKPT_TRAINER_CANCEL_H
#define CKPT_TRAINER_CANCEL_H

#include <pthread.h>
#include <stdint.h>

enum { CANCEL_REASON_SIZE = 256 };

struct cancel {
	int fd; /* eventfd: readable since the last cancel_arm() when there was news */
	pthread_mutex_t lock;
	/* of the newest epoch that was heard of */
	uint32_t epoch;
	int64_t told_ns; /* monotonic_ns() */
	char reason[CANCEL_REASON_SIZE];
};

/* 0, or -errno; then cancel_close() is not needed. */
int cancel_open(struct cancel *cancel);
void cancel_close(struct cancel *cancel);

/* A ckpt_epoch_fn; arg is the struct cancel. */
void cancel_raise(void *arg, uint32_t epoch, const char *reason);

/* To be called after `epoch` was joined: forgets older news. Returns 0, or -ESTALE when a newer epoch is known already. */
int cancel_arm(struct cancel *cancel, uint32_t epoch);

/* Waits for an epoch newer than `epoch`: 0 or -ETIMEDOUT. */
int cancel_wait(struct cancel *cancel, uint32_t epoch, int64_t deadline);

/* When the newest epoch was told, if it is newer than `epoch`, else 0; its reason goes into `reason` ("" if none). */
int64_t cancel_told(struct cancel *cancel, uint32_t epoch, char reason[CANCEL_REASON_SIZE]);

#endif
