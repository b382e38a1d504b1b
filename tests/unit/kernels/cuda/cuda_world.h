/* A CUDA device over the fake runtime with some state of every shape, an arena and a plan for it, and what a training
 * step does around a save. */
#ifndef CKPT_TESTS_CUDA_WORLD_H
#define CKPT_TESTS_CUDA_WORLD_H

#include "cuda/device_cuda.h"

#include "../../../fake/cuda_fake.h"

/* Spans 0 and 1 are of group 3, 2 is of group 0, 3 of group 5. Span 0 is large enough for the copy engine. */
enum {
	WORLD_SPANS = 4,
	WORLD_LEAVES = 32,
	WORLD_STATE = 2 << 20,
	WORLD_GRANULE = 100000,
	WORLD_KERNELS = 16,
	WORLD_FILLS = 1 << 14
};

struct cuda_world {
	struct cuda_fake *fake;
	struct device *dev;
	struct plan *plan;
	struct rt_stream *stream; /* the training stream */
	struct span spans[WORLD_SPANS];
	char *state, *arena, *packed; /* packed: what the arena must hold */
	size_t arena_bytes;
	uint64_t bytes, nleaves, want[WORLD_LEAVES];
	_Atomic uint64_t *progress; /* these three in the arena */
	_Atomic uint32_t *done;
	uint64_t *leaves;
	char *data;
	struct capture_target target;
	struct err err;
	struct painting { /* a kernel that writes a pattern all over the state, or over a group of it */
		struct cuda_world *w;
		uint32_t fill, group;
	} paintings[WORLD_KERNELS];
	uint64_t painted_at; /* the progress when the last of them ran */
	int kernels;
	uint64_t seen; /* the progress when it was last looked at */
};

/* Memory, spans and the fake; nothing was called yet. */
struct cuda_world *cuda_world_memory(uint64_t seed);
/* What cuda_world_make_with does then. */
void cuda_world_up(struct cuda_world *w, unsigned flags);
/* And an open device with the arena attached, a plan, and the training stream. */
struct cuda_world *cuda_world_make(uint64_t seed);
/* The same with flags for the plan. */
struct cuda_world *cuda_world_make_with(uint64_t seed, unsigned flags);
void cuda_world_free(struct cuda_world *w);

int cuda_world_launch(struct cuda_world *w);
int cuda_world_fence(struct cuda_world *w);
/* A kernel on the training stream that writes the pattern `fill` all over the state. */
void cuda_world_kernel(struct cuda_world *w, uint32_t fill);
/* One that overwrites the spans of one group. */
void cuda_world_kernel_on(struct cuda_world *w, uint32_t group, uint32_t fill);
/* Restores leaves [from, to) out of `packed`, checked. */
int cuda_world_restore(struct cuda_world *w, uint64_t from, uint64_t to, uint64_t *bad_leaf);
/* Fills `packed` and `want` with what a state of the pattern must give. */
void cuda_world_expect(struct cuda_world *w, uint32_t fill);
bool cuda_world_matches(const struct cuda_world *w);       /* arena against packed */
bool cuda_world_digests_match(const struct cuda_world *w); /* arena against the source digests, as the daemon does it */

#endif
