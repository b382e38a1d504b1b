/*
 * What a rank computes on, as far as it can fail: the host, or a GPU (cuda/). A GPU works behind the caller's back, its
 * errors show later and some of them stay: then no call of this process succeeds any more, and only another process can
 * take the rank's place. The host device plays the same failures, so that what follows from them is the same code
 * everywhere.
 */
#ifndef CKPT_TRAINER_DEVICE_H
#define CKPT_TRAINER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The ways in which a device is broken on purpose. */
enum device_failure {
	DEVICE_SOUND = 0,
	DEVICE_TRAP,            /* the program on the device traps */
	DEVICE_ILLEGAL_ADDRESS, /* it reads where nothing is */
	DEVICE_NEVER_ENDS,      /* it does not come to its end */
	DEVICE_LOST,            /* the device is gone */
	DEVICE_ECC,             /* its memory has an error that cannot be corrected */
};

enum { DEVICE_WHY_SIZE = 256 };

struct device {
	const char *name;                  /* for messages */
	int (*query)(struct device *self); /* 1: all work is done; 0: not yet; -errno, and why: the context is lost */
	/* Breaks it; what follows shows in query. 0, or -EOPNOTSUPP: this one cannot play that. */
	int (*break_down)(struct device *self, enum device_failure failure);
	/* What else is known of the device once its context is lost, into text; "": nothing. NULL: nobody knows more. */
	void (*explain)(struct device *self, char *text, size_t size);
	enum device_failure failure; /* that was asked for */
	int64_t longest_ns;          /* that work has taken; 0: none has ended */
	char why[DEVICE_WHY_SIZE];
};

/* What is said of one that is played. */
const char *device_failure_text(enum device_failure failure);

struct device device_host(void);

/*
 * Waits until all work is done. 0, or -ENOTRECOVERABLE and why: the context is lost, or the work has not ended by the
 * deadline. Or it has not ended within three times what work has taken so far (a second at least) after the cancel
 * descriptor (-1: none) became readable. Only the end of this process mends that.
 */
int device_wait(struct device *device, int cancel_fd, int64_t deadline);

#endif
