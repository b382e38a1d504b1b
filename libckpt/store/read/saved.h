/* What a checkpoint holds of the tensors that are wanted: its pieces by tensor, and a search among the pieces of one tensor that
 * stays near-linear when there are as many of them as ranks. Private to the restore. */
#ifndef CKPT_STORE_SAVED_H
#define CKPT_STORE_SAVED_H

#include "store/read/restore.h"

struct saved_piece {
	uint32_t file, piece; /* index into saved.files, and into the pieces of that file */
};

/* A tensor that somebody wants. */
struct saved_tensor {
	const char *name;                   /* of its first want */
	const struct manifest_tensor *meta; /* of the first node that has it; NULL: none has */
	uint64_t first_want, nwants;        /* in saved.wants */
	uint64_t first_piece, npieces;      /* in saved.pieces */
};

struct saved {
	const struct manifest_file **files; /* of all nodes, in order */
	uint32_t nfiles;
	struct saved_tensor *tensors;
	uint32_t ntensors;
	uint64_t *wants; /* indices of wants, by tensor */
	struct saved_piece *pieces;
};

/* -EBADMSG: nodes disagree about a tensor, or a manifest points outside itself; -ENOMEM. The checkpoint and the wants must
 * outlive it. */
int saved_make(const struct checkpoint *ck, const struct want *wants, size_t n, struct saved *saved, struct err *err);
void saved_free(struct saved *saved);

static inline const struct region *saved_region(const struct saved *saved, struct saved_piece p)
{
	return &saved->files[p.file]->pieces[p.piece].region;
}

/* The pieces of one tensor, sorted along the axis that separates them best: a dimension, or the row-major order. */
struct saved_span {
	uint64_t low, high; /* along the axis, high exclusive */
	uint64_t reach;     /* highest `high` so far */
	struct saved_piece piece;
};

struct saved_axis {
	const struct saved *saved;
	struct shape shape;
	uint32_t axis; /* shape.ndim: row-major order */
	struct saved_span *spans;
	size_t n;
};

/* -ENOMEM. */
int saved_axis_make(const struct saved *saved, const struct saved_tensor *tensor, struct saved_axis *axis);
void saved_axis_free(struct saved_axis *axis);

struct saved_hit {
	struct saved_piece piece;
	uint64_t volume; /* elements in common, at least 1 */
};

/* A growing array, kept from one search to the next. */
struct saved_hits {
	struct saved_hit *hits;
	size_t n, cap;
};

/* The pieces that overlap the region, in no particular order. -ENOMEM. */
int saved_search(const struct saved_axis *axis, const struct region *region, struct saved_hits *hits);

#endif
