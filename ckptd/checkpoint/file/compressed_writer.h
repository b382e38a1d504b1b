/* Compressed writer: writes one packed data file, as the WRITE of a writer. Chunks are packed by workers, several at a
 * time and in any order, each into a buffer (checkpoint/file/compress_buffers.h). When all chunks before it are packed,
 * the place of a chunk is known, and it is written. Index and header come last.
 *
 * First a sample of the data is packed and thrown away: a file that would not shrink by a PACKER_GAIN-th is not packed.
 *
 *   SAMPLE → (not worth it: DONE) → CHUNKS → HEAD → DONE */
#ifndef CKPTD_CHECKPOINT_FILE_COMPRESSED_WRITER_H
#define CKPTD_CHECKPOINT_FILE_COMPRESSED_WRITER_H

#include "checkpoint/file/compress_buffers.h"
#include "format/files/manifest.h"
#include "runtime/room.h"

enum { PACKER_GAIN = 16 };

struct packer {
	/* set by the caller; must live until done */
	struct packing *packing;
	struct disk *disk;
	const void *header; /* the safetensors file's, aligned */
	uint64_t header_len;
	const uint8_t *data;       /* its data section */
	struct packed_index index; /* planned; freed by packer_free */
	int file;                  /* the handle to write to */
	struct throttle *throttle; /* NULL: no limit */
	struct bucket *bucket;
	void (*moved)(struct packer *p); /* NULL, or called when something was written */
	void (*done)(struct packer *p);
	void *arg;

	/* the result */
	int rc;
	bool worth_it;                 /* of the sample */
	struct manifest_packed packed; /* what was written */

	/* private */
	uint32_t next, placed, written; /* chunks: to be packed next, with a known place, on storage */
	unsigned active;                /* buffers and parcels of ours that are somewhere */
	bool waiting, head_sent, ended;
	struct packing_wish wish;
	struct packing_buffer *ready[PACKING_BUFFERS]; /* packed, by number: something before is not */
	struct list queue;                             /* parcels under a limit: the first is on its way */
	struct turn turn;
	bool turning;
	uint64_t at; /* of the next chunk to be placed */
	uint8_t *index_text;
	struct parcel index_parcel, header_parcel;
};

/* Tells whether the file is worth packing: `done`, with worth_it. */
void packer_sample(struct packer *p);
/* Writes it: `done`, with `packed` or rc. */
void packer_start(struct packer *p);
/* Begins nothing more: done comes soon, with rc. No effect on what has ended. */
void packer_cancel(struct packer *p, int rc);
void packer_free(struct packer *p);

#endif
