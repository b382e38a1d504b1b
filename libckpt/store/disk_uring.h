/* Private to disk_uring*.c: the io_uring implementation of disk.h.
 *
 * disk_uring.c         the context: queues, submission, completion, poll
 * disk_uring_op.c      one operation: how it is prepared, and what its completion means
 * disk_uring_buffers.c registered memory
 * disk_uring_fs.c      what io_uring has no operation for: stat, list, lock, space
 *
 * An operation waits in one of two queues, then holds chunks: slots of a bounded pool, one per request in the kernel. Transfers take
 * turns, one chunk at a time. There are as many slots as the submission queue has entries, so an entry is never missing. */
#ifndef CKPT_STORE_DISK_URING_H
#define CKPT_STORE_DISK_URING_H

#include "store/disk.h"

struct io_uring;
struct io_uring_sqe;

enum {
	URING_ENTRIES = 64,
	URING_RETRIES = 1000,   /* of EINTR, EAGAIN and writes without progress, per chunk */
	URING_BUFFERS = 4096,   /* entries of the registered table */
	URING_UNIT = 256 << 20, /* bytes of one entry: some 25 ms to pin; the kernel takes up to 1 GiB */
	URING_REGIONS = 256,    /* ranges of memory registered at a time */
};

/* One request in the kernel. */
struct chunk {
	struct disk_op *op; /* NULL: free */
	uint64_t at;        /* transfers: bytes from the operation's start */
	uint64_t len;       /* transfers: bytes still to do, from `at` */
	unsigned retries;
	bool plain_open; /* open: direct was refused, tried without */
};

struct memory {
	uintptr_t base;
	uint64_t size;         /* 0: free */
	unsigned first, count; /* entries of the table */
	unsigned pinned;       /* of them, from the first on */
};

struct disk {
	struct io_uring *ring;
	int event_fd, root;
	struct list transfers; /* operations with chunks left to issue, in turns */
	struct list others;    /* operations that are one request, in order */
	struct list finished;  /* results are there, done not called yet */
	unsigned pending;
	unsigned transfers_in_flight, others_in_flight; /* chunks */
	struct chunk chunks[URING_ENTRIES];
	bool told_direct;

	bool has_buffers;  /* the kernel has sparse tables */
	bool *buffer_used; /* URING_BUFFERS */
	struct memory memory[URING_REGIONS];
};

/* ---- disk_uring_op.c */

bool op_is_transfer(const struct disk_op *op);
/* Failpoints and what is done at once. 1: the operation is complete (result set); 0: it needs requests. */
int op_start(struct disk *d, struct disk_op *op);
/* The next chunk of a transfer: sets at and len, and advances op->issued. */
void op_next_chunk(struct disk *d, struct disk_op *op, struct chunk *c);
void op_prepare(struct disk *d, struct chunk *c, struct io_uring_sqe *sqe);
/* What the kernel said of the chunk. true: it is to be prepared and sent again (the rest, or a retry). */
bool op_completed(struct disk *d, struct chunk *c, int res);
/* Result and failpoint when the last chunk is back. */
void op_finish(struct disk_op *op);

/* ---- disk_uring_buffers.c */

void buffers_init(struct disk *d);
void buffers_free(struct disk *d);
/* The table's entry that holds [buf, buf + *len), or -1: not pinned. *len is cut where the entry ends. */
int buffers_find(const struct disk *d, const void *buf, uint64_t *len);

#endif
