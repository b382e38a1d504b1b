/* State on a GPU, in tensors of equal size, registered with a session of libckpt. Under `ckpt run`. */
#ifndef CKPT_BENCH_GPU_STATE_H
#define CKPT_BENCH_GPU_STATE_H

#include "gpu.h"

#include "ckpt.h"

enum { GPU_TENSORS = 200 };

struct gpu_state {
	ckpt *s;
	size_t each; /* bytes of a tensor */
	char *tensors[GPU_TENSORS];
};

/* Open, registered and joined. */
struct gpu_state gpu_state_open(struct gpu *gpu, size_t bytes);
/* All bytes of the state are others than for any other value. */
void gpu_state_fill(struct gpu *gpu, const struct gpu_state *state, uint64_t value);
/* The state is what gpu_state_fill made of it; ends the program where it is not. */
void gpu_state_expect(struct gpu *gpu, const struct gpu_state *state, uint64_t value);
/* Ends the program when rc < 0. */
void gpu_state_must(const struct gpu_state *state, int rc, const char *what);

#endif
