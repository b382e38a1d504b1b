/* What stands in place of the toolkit's <cuda_runtime.h> where kernels are compiled for the host: see emulator.h. The names and
 * what they mean are CUDA's. */
#ifndef CKPT_TESTS_CUDA_RUNTIME_H
#define CKPT_TESTS_CUDA_RUNTIME_H

#ifndef __cplusplus
#error "kernels are C++"
#endif

#include "emulator.h"

#include "emulated_types.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

/* ---- launch ---- */

/* Of the thread that runs. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static const int warpSize = 32;

typedef struct emulated_stream
	*cudaStream_t; /* every stream is the host's thread: work is done when its call returns */

struct cudaLaunchAttribute;

struct cudaLaunchConfig_t {
	dim3 gridDim, blockDim;
	size_t dynamicSmemBytes; /* not emulated: 0 */
	cudaStream_t stream;
	cudaLaunchAttribute *attrs;
	unsigned numAttrs;
};

cudaError_t emulator_launch(const cudaLaunchConfig_t *config, void (*body)(void *arg), void *arg);
extern const emulated_device *emulator_current;
/* Whether the launch waits for its turn on a stream; then put gives it to that. run frees arg. */
bool emulator_waits(const cudaLaunchConfig_t *config);
cudaError_t emulator_put(const cudaLaunchConfig_t *config, void (*run)(void *arg), void *arg);

template <typename... Params, typename... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Params...), Args &&...args)
{
	std::tuple<Params...> held(static_cast<Params>(args)...);
	auto body = [kernel, held] { std::apply(kernel, held); };
	struct kept {
		cudaLaunchConfig_t config;
		decltype(body) run;
	};
	auto run_body = [](void *arg) { (*static_cast<decltype(body) *>(arg))(); };
	if (!emulator_waits(config))
		return emulator_launch(config, run_body, &body);
	auto run = [](void *arg) {
		kept *mine = static_cast<kept *>(arg);
		emulator_launch(
			&mine->config, [](void *one) { (*static_cast<decltype(body) *>(one))(); }, &mine->run);
		delete mine;
	};
	kept *mine = new kept{*config, body};
	cudaError_t code = emulator_put(config, run, mine);
	if (code != cudaSuccess)
		delete mine;
	return code;
}

/* ---- where threads meet ---- */

enum emulator_meeting { MEET_SYNC, MEET_SHUFFLE, MEET_BALLOT };

void __syncthreads();
/* The lanes of the mask come together. Gives the value of lane `source` (shuffle), or a bit per lane whose value is not 0
 * (ballot). */
uint64_t emulator_meet(emulator_meeting kind, unsigned mask, uint64_t value, unsigned source);
unsigned emulator_lane();

static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
	emulator_meet(MEET_SYNC, mask, 0, 0);
}

template <typename T> T emulator_shuffle(unsigned mask, T value, unsigned source)
{
	static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
	uint64_t bits = 0;
	memcpy(&bits, &value, sizeof(T));
	bits = emulator_meet(MEET_SHUFFLE, mask, bits, source);
	memcpy(&value, &bits, sizeof(T));
	return value;
}

template <typename T> T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
	unsigned lane = emulator_lane(), first = lane & ~(unsigned)(width - 1);
	return emulator_shuffle(mask, value, first + ((unsigned)source & (unsigned)(width - 1)));
}

template <typename T> T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32)
{
	unsigned lane = emulator_lane(), source = lane ^ (unsigned)with;
	/* A lane of a later part keeps its own; one of an earlier part is taken. */
	return emulator_shuffle(mask, value, source > (lane | (unsigned)(width - 1)) ? lane : source);
}

template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32)
{
	unsigned lane = emulator_lane(), last = lane | (unsigned)(width - 1);
	return emulator_shuffle(mask, value, lane + by > last ? lane : lane + by);
}

template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32)
{
	unsigned lane = emulator_lane(), first = lane & ~(unsigned)(width - 1);
	return emulator_shuffle(mask, value, lane < first + by ? lane : lane - by);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
	return (unsigned)emulator_meet(MEET_BALLOT, mask, predicate != 0, 0);
}

static inline int __any_sync(unsigned mask, int predicate)
{
	return __ballot_sync(mask, predicate) != 0;
}

static inline int __all_sync(unsigned mask, int predicate)
{
	return __ballot_sync(mask, !predicate) == 0;
}

struct cudaFuncAttributes {
	size_t localSizeBytes;
};

/* Nothing is loaded here. */
template <typename Kernel>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, Kernel *kernel)
{
	*attributes = {};
	return kernel ? cudaSuccess : cudaErrorInvalidValue;
}

void emulator_fence(bool system);

static inline void __threadfence_block()
{
	emulator_fence(false);
}

static inline void __threadfence()
{
	emulator_fence(false);
}

static inline void __threadfence_system()
{
	emulator_fence(true);
}

/* ---- atomics: only one fiber runs at a time, and none loses its turn within one ---- */

void emulator_atomic(const void *at, size_t n);
#define EMULATED_WHOLE __attribute__((noinline, no_sanitize_thread))

#define EMULATED_ATOMIC(name, expression)                                                                              \
	template <typename T> static EMULATED_WHOLE T name(T *at, T value)                                             \
	{                                                                                                              \
		emulator_atomic(at, sizeof(T));                                                                        \
		T old = *at;                                                                                           \
		*at = (expression);                                                                                    \
		return old;                                                                                            \
	}
EMULATED_ATOMIC(atomicAdd, old + value)
EMULATED_ATOMIC(atomicSub, old - value)
EMULATED_ATOMIC(atomicMax, old > value ? old : value)
EMULATED_ATOMIC(atomicMin, old < value ? old : value)
EMULATED_ATOMIC(atomicOr, old | value)
EMULATED_ATOMIC(atomicAnd, old &value)
EMULATED_ATOMIC(atomicXor, old ^ value)
EMULATED_ATOMIC(atomicExch, value)
#undef EMULATED_ATOMIC

template <typename T> static EMULATED_WHOLE T atomicCAS(T *at, T expected, T value)
{
	emulator_atomic(at, sizeof(T));
	T old = *at;
	if (old == expected)
		*at = value;
	return old;
}

#include "emulated_math.h"
#include "emulated_memory.h"

#endif
