/* Two checkpoints compared, tensor by tensor.
 *
 * difference.c   elements as numbers
 * diff_match.c   which tensors both have, and which pieces stand for each other
 * diff_leaves.c  pieces of the same region: digests first, and data only where they differ
 * diff_source.c  their leaves, out of plain and packed files
 * diff_whole.c   tensors that are cut differently: window by window
 * diff.c         the command
 *
 * Memory is bounded by the documents of both checkpoints, a few sidecars, and two windows. */
#ifndef CKPT_CLI_DIFF_H
#define CKPT_CLI_DIFF_H

#include "inspect/difference.h"
#include "store/read/repo.h"

enum diff_state {
	DIFF_SAME = 1,
	DIFF_CHANGED,
	DIFF_ADDED,   /* only b has it */
	DIFF_REMOVED, /* only a has it */
	DIFF_RETYPED, /* another kind, type or shape: the data are not compared */
};

struct diff_tensor {
	const struct manifest_tensor *a, *b; /* NULL: that side lacks it */
	enum diff_state state;
	struct difference difference;
	uint64_t bytes;
};

/* Where a piece stands in its checkpoint. */
struct diff_place {
	uint32_t tensor;
	const struct manifest_file *file;
	const struct manifest_piece *piece;
	uint32_t index; /* of the piece in the file */
};

/* Two pieces of the same region. */
struct diff_pair {
	struct diff_place a, b;
};

struct diff {
	struct checkpoint *a, *b;
	struct diff_tensor *tensors; /* by name */
	uint32_t ntensors;
	struct diff_pair *pairs; /* in the order of the files of a */
	size_t npairs;
	uint32_t *whole; /* tensors that are cut differently */
	uint32_t nwhole;
	uint64_t total, done, read; /* bytes: of tensors that both have; dealt with; read of both sides together */
	int (*progress)(void *arg, uint64_t done, uint64_t total); /* non-zero cancels */
	void *arg;
};

/* globs: as filter_matches. -ENOMEM; -EBADMSG: nodes contradict each other. On failure *d is empty. */
int diff_match(struct checkpoint *a, struct checkpoint *b, const char *const *globs, struct diff *d, struct err *err);
/* Compares what was matched. -EBADMSG names the damage; -ECANCELED. */
int diff_leaves(struct diff *d, struct err *err);
int diff_whole(struct diff *d, struct err *err);
void diff_free(struct diff *d);

/* -ECANCELED when the caller wants to stop. */
int diff_advance(struct diff *d, uint64_t bytes, struct err *err);
const char *diff_state_name(enum diff_state state);

#endif
