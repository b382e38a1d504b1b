/* Two GPUs of one process over the fake runtime, with state on each, one arena for both, and a training stream on each. */
#ifndef CKPT_TESTS_CUDA_PAIR_H
#define CKPT_TESTS_CUDA_PAIR_H

#include "cuda/device_cuda.h"

#include "../../../fake/cuda_fake.h"

/* Of each GPU: span 0 is one row that the copy engine takes, of group 0; span 1 is of strided rows, of group 1. */
enum { PAIR_SPANS = 2, PAIR_STATE = 1 << 20, PAIR_GRANULE = 100000, PAIR_KERNELS = 16, PAIR_HEAD = 4096 };

struct pair_gpu {
	struct device *dev;
	struct plan *plan;
	struct rt_stream *stream; /* beside the default one */
	struct span spans[PAIR_SPANS];
	char *state;
	struct capture_target target;
};

struct pair {
	struct cuda_fake *fake;
	struct pair_gpu gpus[2];
	char *arena;
	size_t arena_bytes;
	struct err err;
	struct pair_kernel { /* fills the state of a GPU, or a group of it */
		struct pair_gpu *gpu;
		uint32_t group;
		int fill;
	} kernels[PAIR_KERNELS];
	int nkernels;
};

/* Memory and the fake; nothing was called yet. */
struct pair *pair_memory(uint64_t seed);
/* Devices, the arena attached to both, plans, streams; the first error. */
int pair_up(struct pair *p, unsigned flags);
struct pair *pair_make(uint64_t seed, unsigned flags);
/* lost: one of the GPUs died, and the other may wait for it for ever. Else nothing may have leaked. */
void pair_free(struct pair *p, bool lost);

/* With the caller's stream for both. The first error. */
int pair_launch(struct pair *p, struct rt_stream *stream);
int pair_fence(struct pair *p, uint32_t group, struct rt_stream *stream);

/* A kernel on a stream of this GPU (NULL: its default one) that fills the state of `of` with a byte. */
void pair_kernel(struct pair *p, int gpu, struct rt_stream *stream, int of, uint32_t group, int fill);
/* The stream of GPU `to` waits for what is on that of the other. */
void pair_order(struct pair *p, int to, struct rt_stream *before, struct rt_stream *after);

/* Whether the arena holds this byte all over for the GPU. */
bool pair_holds(const struct pair *p, int gpu, int fill);
/* Whether the source digests are those of a state that is this byte all over; whether they are those of the arena. */
bool pair_digested(const struct pair *p, int gpu, int fill);
bool pair_digests_match(const struct pair *p, int gpu);

#endif
