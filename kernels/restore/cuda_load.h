/* One call of a restore: spans that are put on the device, piece by piece, and what their pieces are compared with. It
 * lives until the last of its pieces has been awaited. For cuda_restore.c only. */
#ifndef CKPT_KERNELS_CUDA_LOAD_H
#define CKPT_KERNELS_CUDA_LOAD_H

#include "capture/cuda_route.h"
#include "cuda_scratch.h"

/* Some units of the table, from some place of some span on. */
struct cuda_piece {
	struct cuda_load *load;
	uint64_t unit, units;
};

struct cuda_load {
	struct cuda_load *next; /* of those that live */
	const char *base;
	struct span_list list;
	const uint64_t *leaves; /* expected; NULL: nothing is compared */
	const void *origin;     /* what the caller calls it */
	struct span *numbered;  /* the spans with their leaves counted from 0 */
	struct cuda_table table;
	void *filled;    /* what the table is copied from */
	unsigned flying; /* pieces */
	bool bounced;    /* the memory is not pinned: it goes through the scratch */
	/* Where the next piece begins. */
	size_t span;
	uint64_t at, unit;
	/* Of the current piece: bytes in its bounce, and adjacent bytes that are to be unpacked. */
	uint64_t bounced_bytes;
	struct {
		const char *from;
		uint64_t arena_at, bytes, unit, units;
	} packed;
};

/* The device is entered. *out is to be freed also after an error, unless it is NULL. */
int cuda_load_new(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		  const void *origin, struct cuda_load **out, struct err *err);
/* Puts the next piece on the stream, the number-th of the scratch. */
int cuda_load_send(struct device *dev, struct cuda_load *load, const struct cuda_scratch *scratch, uint64_t number,
		   struct cuda_piece *piece, struct err *err);
static inline bool cuda_load_sent(const struct cuda_load *load)
{
	return load->span == load->list.n;
}
/* Compares the digests of a piece that has arrived. -EBADMSG with the leaf. */
int cuda_load_compare(const struct cuda_piece *piece, const uint64_t *arrived, uint64_t *bad_leaf, struct err *err);
/* No piece of it is under way; lost: but the device, which hangs, may touch its memory yet. */
void cuda_load_free(struct device *dev, struct cuda_load *load, bool lost);

#endif
