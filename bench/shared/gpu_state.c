#include "gpu_state.h"

#include "gpu_load.h"
#include "gpu_verify.h"

#include <stdio.h>

void gpu_state_must(const struct gpu_state *state, int rc, const char *what)
{
	if (rc < 0)
		gpu_end("%s: %s", what, ckpt_error(state->s));
}

static void add_tensor(struct gpu_state *state, int i)
{
	char name[32];
	uint64_t shape = state->each;
	snprintf(name, sizeof(name), "tensor.%d", i);
	ckpt_piece piece = {.data = state->tensors[i]};
	ckpt_tensor t = {.size = sizeof(t),
			 .name = name,
			 .dtype = CKPT_U8,
			 .ndim = 1,
			 .shape = &shape,
			 .pieces = &piece,
			 .npieces = 1,
			 .device = 0};
	gpu_state_must(state, ckpt_register_tensor(state->s, &t), "registering");
}

struct gpu_state gpu_state_open(struct gpu *gpu, size_t bytes)
{
	struct gpu_state state = {.each = bytes / GPU_TENSORS / 256 * 256};
	char why[512];
	if (ckpt_open(NULL, &state.s, why, sizeof(why)))
		gpu_must(-1, &(struct err){""}, why);
	for (int i = 0; i < GPU_TENSORS; i++) {
		state.tensors[i] = gpu_memory(gpu, state.each);
		add_tensor(&state, i);
	}
	gpu_state_must(&state, ckpt_join(state.s, NULL, 0, NULL, -1), "join");
	return state;
}

static uint64_t seed_of(uint64_t value, int tensor)
{
	return value * GPU_TENSORS + (uint64_t)tensor;
}

void gpu_state_fill(struct gpu *gpu, const struct gpu_state *state, uint64_t value)
{
	for (int i = 0; i < GPU_TENSORS; i++)
		gpu_check(gpu, gpu_fill(state->tensors[i], state->each, seed_of(value, i), gpu->stream), "filling");
	gpu_drain(gpu, gpu->stream);
}

void gpu_state_expect(struct gpu *gpu, const struct gpu_state *state, uint64_t value)
{
	for (int i = 0; i < GPU_TENSORS; i++)
		gpu_expect_filled(gpu, "the state", state->tensors[i], state->each, seed_of(value, i), 0);
}
