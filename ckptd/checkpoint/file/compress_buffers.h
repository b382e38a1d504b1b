/* Compress buffers: the buffers in which chunks are packed on their way to storage. They bound what packing takes, over
 * all jobs: PACKING_BUFFERS of about 2.6 MiB each, made when a file wants them, gone when none does. A chunk is packed by
 * a worker, straight out of the arena. Belongs to the loop's thread, but for what a worker does to a buffer. */
#ifndef CKPTD_CHECKPOINT_FILE_COMPRESS_BUFFERS_H
#define CKPTD_CHECKPOINT_FILE_COMPRESS_BUFFERS_H

#include "runtime/room.h"
#include "store/disk/disk.h"
#include "store/read/chunk.h"

struct packer;

enum { PACKING_BUFFERS = 8 }; /* being packed or written */

/* What is to be written of a file, and its way there. */
struct parcel {
	struct packer *packer;
	const uint8_t *data;
	uint64_t at, len; /* in the file; multiples of DISK_ALIGN */
	uint64_t moved;   /* under a limit */
	struct disk_op op;
	struct list link;
};

struct packing_buffer {
	struct work work;
	struct list link;
	struct parcel parcel;
	struct chunk_packer *codec;
	uint8_t *stored; /* PACKED_CHUNK bytes, aligned */
	uint32_t number; /* of the chunk in the file */
	const uint8_t *plain;
	struct packed_chunk chunk;
	uint64_t sampled, shrunk; /* of a sample: bytes before and after */
	bool ran;
};

/* Somebody who waits for a buffer. */
struct packing_wish {
	void (*go)(struct packing_wish *wish);
	struct list link;
};

struct packing {
	struct pool *pool;
	unsigned users; /* files that want buffers */
	unsigned made;
	struct packing_buffer *all[PACKING_BUFFERS];
	struct list free, waiting;
};

void packing_init(struct packing *packing, struct pool *pool);
/* Frees the buffers, also those of files that were never finished; nothing runs any more. */
void packing_free(struct packing *packing);
/* A file begins or ends to want buffers. */
void packing_enter(struct packing *packing);
void packing_leave(struct packing *packing);
/* NULL: all are in use, or there is no memory for another. */
struct packing_buffer *packing_take(struct packing *packing);
/* Calls `go` when a buffer was put back, in the order of asking. -ENOMEM: there is none that could be. */
int packing_wait(struct packing *packing, struct packing_wish *wish);
void packing_put(struct packing *packing, struct packing_buffer *buffer);

#endif
