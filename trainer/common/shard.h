/*
 * ZeRO-1 shards: the flat vector of all parameters is cut into `world` contiguous ranges, one per rank, and the
 * range cut along the named tensors into segments, since the checkpoint knows optimizer state as flat ranges of
 * tensors. Pure functions of their arguments.
 */
#ifndef CKPT_TRAINER_SHARD_H
#define CKPT_TRAINER_SHARD_H

#include <stddef.h>

#include "common/tensor.h"

/* Elements [begin, end) of the flat vector. */
struct shard_range {
	size_t begin, end;
};

/*
 * The range of `rank` out of `world` ranks (0 <= rank < world) in a vector of `size` elements. Ranges are in rank
 * order, disjoint and cover everything; all but the last non-empty one have the same length, a multiple of 16
 * elements, so the last may be shorter and those behind it empty.
 */
struct shard_range shard_range(size_t size, int rank, int world);

/* The part of one tensor that lies in one shard. */
struct shard_segment {
	size_t tensor;       /* index in the table */
	size_t tensor_start; /* first element in the flattened tensor */
	size_t count;        /* elements, at least 1 */
	size_t shard_start;  /* first element in the shard's own arrays */
};

/*
 * Lists the segments of `range`, in flat order without gaps, into segments[capacity]. Returns their number, which
 * may exceed capacity: then only the first `capacity` were written. `count` tensors at most are ever needed.
 */
size_t shard_segments(const struct tensor *table, size_t count, struct shard_range range,
		      struct shard_segment *segments, size_t capacity);

enum { SHARD_NAME_SIZE = TENSOR_NAME_SIZE + 24 };

enum shard_state {
	SHARD_EXP_AVG,    /* first moment */
	SHARD_EXP_AVG_SQ, /* second moment */
};

/* Writes the checkpoint's name of a tensor's optimizer state, "optim.exp_avg.<tensor>" or "optim.exp_avg_sq.<tensor>". */
void shard_state_name(char name[SHARD_NAME_SIZE], enum shard_state state, const struct tensor *tensor);

#endif
