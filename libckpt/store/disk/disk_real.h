/* Private to disk_real*.c: the implementation of disk.h on the machine's own file systems.
 *
 * disk_real.c          the context: queues, submission, completion, poll
 * disk_real_op.c       one operation: the requests it is made of, and what their completion means
 * disk_real_uring.c    an engine: io_uring
 * disk_real_threads.c  an engine: threads with ordinary system calls, where io_uring is forbidden
 * disk_real_buffers.c  registered memory
 * disk_real_fault.c    faults on purpose
 * disk_real_power.c    power that is cut on purpose, and disk_real_unsynced*.c, what that loses
 * disk_real_fs.c       what is synchronous by nature: stat, list, lock, space
 *
 * An operation waits in one of two queues, then holds chunks: slots of a bounded pool, one per request that the engine carries out.
 * Transfers take turns, one chunk at a time. */
#ifndef CKPT_STORE_DISK_REAL_H
#define CKPT_STORE_DISK_REAL_H

#include "store/disk/disk.h"

enum {
	DISK_REQUESTS = 64,    /* in the engine at a time; what may wait inside is not bounded */
	DISK_RETRIES = 1000,   /* of EINTR, EAGAIN and writes without progress, per chunk */
	DISK_BUFFERS = 4096,   /* entries of the registered table */
	DISK_UNIT = 256 << 20, /* bytes of one entry: some 25 ms to pin; the kernel takes up to 1 GiB */
	DISK_REGIONS = 256,    /* ranges of memory registered at a time */
};

/* What the engine is to do: the arguments of one system call, named by the operation's kind. */
struct request {
	enum disk_kind kind;
	int dir, dir2, file;
	const char *name, *name2;
	int flags; /* of openat, unlinkat; mode of mkdirat */
	void *buf;
	uint64_t offset, len;
	int index; /* entry of the registered table that holds the buffer; -1: none */
};

/* One request in the engine. */
struct chunk {
	struct disk_op *op; /* NULL: free */
	uint64_t at;        /* transfers: bytes from the operation's start */
	uint64_t len;       /* transfers: bytes still to do, from `at` */
	unsigned retries;
	bool plain_open; /* open: direct was refused, tried without */
	struct request request;
	int res;          /* for the engine: what the system call gave, or -errno */
	struct list link; /* for the engine */
};

/* Carries out requests, in any order. Belongs to the thread of its context; the descriptor d->event_fd becomes readable when
 * something has been carried out. */
struct engine {
	const char *name;
	int (*open)(struct disk *d, struct err *err); /* sets d->engine_state; on failure nothing is left behind */
	void (*close)(struct disk *d);                /* nothing is in the engine any more */
	void (*issue)(struct disk *d, struct chunk *c);
	void (*enter)(struct disk *d);             /* what was issued is begun, at the latest now */
	struct chunk *(*reap)(struct disk *d);     /* the next one that was carried out, its res set; NULL: none now */
	void (*wait)(struct disk *d, uint64_t ns); /* until one was carried out, or for so long */
	int (*table)(struct disk *d, unsigned entries); /* an empty table of registered buffers; -ENOTSUP: has none */
	int (*pin)(struct disk *d, unsigned index, uintptr_t base,
		   uint64_t size); /* sets an entry; size 0 empties it */
};

extern const struct engine engine_uring, engine_threads;

struct memory {
	uintptr_t base;
	uint64_t size;         /* 0: free */
	unsigned first, count; /* entries of the table */
	unsigned pinned;       /* of them, from the first on */
};

struct disk {
	const struct engine *engine;
	void *engine_state;
	int event_fd, root;
	struct list transfers; /* operations with chunks left to issue, in turns */
	struct list others;    /* operations that are one request, in order */
	struct list held;      /* by a fault on purpose: `end` says until when */
	struct list finished;  /* results are there, done not called yet */
	unsigned pending;
	unsigned transfers_in_flight, others_in_flight; /* chunks */
	struct chunk chunks[DISK_REQUESTS];
	bool told_direct;
	struct disk_fault fault; /* on purpose */
	bool truncates; /* the engine does (io_uring: since Linux 6.9); else it is done when submitted, by the caller's thread */

	bool has_buffers;  /* the engine has a table */
	bool *buffer_used; /* DISK_BUFFERS */
	struct memory memory[DISK_REGIONS];
};

/* ---- disk_real_op.c */

bool op_is_transfer(const struct disk_op *op);
/* Failpoints and what is done at once. 1: the operation is complete (result set); 0: it needs requests. */
int op_start(struct disk *d, struct disk_op *op);
/* The next chunk of a transfer: sets at and len, and advances op->issued. */
void op_next_chunk(struct disk *d, struct disk_op *op, struct chunk *c);
/* Fills c->request. */
void op_prepare(struct disk *d, struct chunk *c);
/* What the system call said. true: it is to be prepared and issued again (the rest, or a retry). */
bool op_completed(struct disk *d, struct chunk *c, int res);
/* Result and failpoint when the last chunk is back. */
void op_finish(struct disk_op *op);

/* ---- disk_real.c */

/* Queues it, or completes it at once. */
void disk_begin(struct disk *d, struct disk_op *op);
/* Makes the event descriptor readable. */
void disk_wake(struct disk *d);
/* What is in the engine is carried out; nothing else is begun, and nobody is told. */
void disk_settle(struct disk *d, uint64_t deadline);

/* ---- disk_real_power.c */

/* An operation is begun; it has been carried out, or has failed. */
void power_begin(struct disk_op *op);
void power_end(const struct disk_op *op);

/* ---- disk_real_fault.c */

/* Whether it is held back: it will begin later. */
bool fault_holds(struct disk *d, struct disk_op *op);
/* Begins those whose time has come; all: each of them. */
void fault_release(struct disk *d, bool all);
/* When the first of them may begin; UINT64_MAX: there is none. */
uint64_t fault_next(const struct disk *d);
/* Of a write that has been done. */
void fault_damage(struct disk *d, const struct disk_op *op);

/* ---- disk_real_buffers.c */

void buffers_init(struct disk *d);
void buffers_free(struct disk *d);
/* The table's entry that holds [buf, buf + *len), or -1: not pinned. *len is cut where the entry ends. */
int buffers_find(const struct disk *d, const void *buf, uint64_t *len);

#endif
