/* Capture: the devices on which a rank's state lives and the plans that copy it into each slot, built once. A slot's
 * counters are written by the device itself when there is one device. With several, each has counters of its own in the
 * arena, and capture_combine, on the library's service thread, sums them. */
#ifndef CKPT_CAPTURE_H
#define CKPT_CAPTURE_H

#include "client/capture/arenas.h"
#include "client/capture/env.h"
#include "client/capture/span_index.h"
#include "client/capture/table.h"
#include "format/arena/witness.h"
#include "kernels.h"

#include <pthread.h>

struct capture_device {
	int ordinal;
	const struct device_ops *ops;
	struct device *dev;
	bool attached;  /* to the arena; a GPU to its head and leaves */
	uint32_t slots; /* bits: and to these slots of it */
	struct plan *plans[ARENA_SLOTS_MAX];
	pthread_mutex_t *lock; /* of struct capture_slots: held by who restores to it */
};

/* How far the counters of a slot with several devices have been summed. */
struct capture_cursor {
	bool active;
	uint32_t piece;             /* pieces before it have arrived */
	uint64_t bytes;             /* of them */
	uint64_t used[ARENA_PARTS]; /* of them, by device */
};

/* Which slots can be captured to; capture_slots.c. */
struct capture_slots {
	_Atomic bool ready[ARENA_SLOTS_MAX];
	/* Held while plans are made, launched, or end, and while state is restored: a device wants to be called by one
	 * thread at a time. Not for fences. Before `lock` of struct capture. */
	pthread_mutex_t devices;
	pthread_t thread; /* makes those ready that the join has left */
	bool started;
	_Atomic bool stop;
};

struct capture {
	struct arena *arena; /* the rank's own */
	uint32_t ndevices;   /* on which anything is registered */
	uint32_t nactive;    /* the first of them: from which this rank captures (neighbours may capture the rest) */
	struct capture_device devices[ARENA_PARTS];
	uint8_t *piece_device;      /* per layout piece: index into devices */
	bool digests;               /* every active device gives source digests */
	bool staged;                /* captures of GPUs go through spare memory of theirs */
	bool votes;                 /* all that it holds of replicas is digested */
	struct witnesses witnesses; /* then: of what */
	struct capture_slots slots;
	/* what each active device captures, as it stood at move `spans_of` of the table */
	struct span *spans[ARENA_PARTS];
	size_t nspans[ARENA_PARTS];
	uint64_t spans_of;
	struct span_index index;           /* of those spans; made when a piece has moved first */
	uint64_t bound[ARENA_SLOTS_MAX];   /* up to which move of the table the slot's plans have followed */
	uint64_t *before[ARENA_SLOTS_MAX]; /* strict: the digests taken in begin */
	pthread_mutex_t lock;              /* cursors */
	struct capture_cursor cursors[ARENA_SLOTS_MAX];
};

/* ordinal → device layer. */
struct device_layers {
	const struct device_ops *host, *cuda; /* cuda: NULL in a build without it */
};

int capture_init(struct capture *c, struct arena *arena, const struct table *table, const struct device_layers *layers,
		 const struct settings *settings, struct err *err);
/* Waits until no device writes into the arena. */
void capture_free(struct capture *c);

/* capture_slots.c. Makes the slot ready that the next save takes, and the others behind this call where that takes time. */
int capture_slots_start(struct capture *c, struct err *err);
void capture_slots_stop(struct capture *c);
void capture_slots_detach(struct capture *c, struct capture_device *d);
/* Whether it can be captured to. Who waits for one that is not is woken as by the daemon. */
bool capture_slot_ready(const struct capture *c, uint32_t slot);

/* capture_moves.c. Tells the devices of a slot's plans where the pieces stand that have moved since the plans followed
 * last, if that is known. *known: whether all is done, or has failed; else all spans are to be told. */
int capture_plans_move(struct capture *c, const struct table *table, uint32_t slot, bool *known, struct err *err);

/* capture_plans.c. One span of a layout's piece, or of a witness, as it stands now. */
int capture_span_of_piece(const struct table *table, const struct layout_piece *p, uint32_t group, struct span *out,
			  struct err *err);
int capture_span_of_witness(const struct table *table, const struct witness_piece *p, struct span *out,
			    struct err *err);
/* Whether a device captures a piece of the layout; digests a witness. */
bool capture_takes_piece(const struct capture *c, uint32_t device, uint32_t piece);
bool capture_takes_witness(const struct capture *c, const struct table *table, uint32_t device, uint32_t witness);
/* What the plans are of, once the devices are open. */
int capture_spans_make(struct capture *c, const struct table *table, struct err *err);
/* The plans of a slot. */
int capture_plans_make(struct capture *c, uint32_t slot, struct err *err);
/* Bytes between two steps of the progress counter of a device that copies so many. */
uint64_t capture_granule(int ordinal, uint64_t bytes);
/* Those of one slot, for what has moved since. On failure they are partly as they were: the next call tries again. */
int capture_plans_follow(struct capture *c, const struct table *table, uint32_t slot, struct err *err);

/* Starts the copy of everything into the slot, whose record says CAPTURING, but for what it holds if it is intact, from
 * where the table says that it stands now. On failure the slot's `done` says so as soon as nothing is being copied into
 * it. */
int capture_launch(struct capture *c, const struct table *table, uint32_t slot, void *stream, bool strict,
		   struct err *err);
/* The number of a tensor group in what this rank captures, for capture_fence; -1: nothing of it is captured here. */
int capture_group(const struct capture *c, const char *name);
/* How long a device is waited for, and whom to tell meanwhile that this is what goes on. */
struct patience {
	uint64_t deadline;
	uint64_t every_ns;
	void (*waiting)(void *arg);
	void *arg;
};
/* group: FENCE_ALL, or of capture_group. -EBADMSG names the tensor. */
int capture_fence(struct capture *c, uint32_t slot, uint32_t group, void *stream, const struct patience *patience,
		  struct err *err);
/* Asks the devices to end the copy into the slot early. */
void capture_cancel(struct capture *c, uint32_t slot);
/* Ends all captures, or waits for their end: behind it nothing reads the state. -ETIMEDOUT: a device still does. */
int capture_end(struct capture *c, const struct patience *patience, struct err *err);
/* Sums counters; returns whether any capture still needs it. *ended: one has just come to its end. */
bool capture_combine(struct capture *c, bool *ended);

#endif
