/* Spans inside the device layer: checked, simplified, and walked as strided runs. */
#ifndef CKPT_KERNELS_SPAN_H
#define CKPT_KERNELS_SPAN_H

#include "kernels.h"

/* 0 and the bytes of the span (bytes may be NULL). -EINVAL: too many dimensions, memory NULL, a part outside the image;
 * -EOVERFLOW: the image, its place in the arena or its reach in memory does not fit 63 bits. */
int span_check(const struct span *span, uint64_t *bytes, struct err *err);

/* Rewrites a checked span with as few loops as the same bytes need. Packed memory ends with ndim 0, row_bytes ==
 * span_bytes and no part. */
void span_simplify(struct span *span);

/* `loops` times `rows` rows of `bytes` contiguous bytes in memory, `stride` bytes apart, the loops `loop_stride` bytes
 * apart; packed they all follow each other. */
struct span_run {
	char *memory;
	uint64_t loops, rows, bytes;
	int64_t loop_stride, stride; /* 0 where there is only one */
};

struct span_walk {
	const struct span *span;
	uint64_t left;   /* bytes to go */
	uint64_t in_row; /* bytes of the current row that lie behind */
	int64_t offset;  /* of the current row from span->memory */
	uint64_t index[SPAN_NDIM_MAX];
};

/* Walks packed bytes [at, at + len) of the span, in order. */
void span_walk_init(struct span_walk *walk, const struct span *span, uint64_t at, uint64_t len);
bool span_walk_next(struct span_walk *walk, struct span_run *run);

/* Checked, simplified copies of spans. */
struct span_list {
	struct span *spans;
	size_t n;       /* those that are copied */
	size_t nall;    /* and those that are only digested, behind them */
	uint64_t bytes; /* that are copied */
};

int span_list_init(struct span_list *list, const struct span *spans, size_t n, struct err *err);
void span_list_free(struct span_list *list);
/* The same for spans that stand in the place of those of `former`. -EINVAL: they are not the same but for their memory. */
int span_list_again(struct span_list *list, const struct span_list *former, const struct span *spans, size_t n,
		    struct err *err);
/* Spans in the place of some, which[i] of which spans[i] is to be. After an error, as of span_list_again, the list is as it was. */
int span_list_move(struct span_list *list, const struct span *spans, const uint32_t *which, size_t n, struct err *err);

#endif
