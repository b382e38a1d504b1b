/* The loads of gpu_load.cu; they return the vendor's code. */
#ifndef CKPT_BENCH_GPU_LOAD_H
#define CKPT_BENCH_GPU_LOAD_H

#include <stdint.h>

#ifdef __cplusplus
#define GPU_BOTH __host__ __device__
extern "C" {
#else
#define GPU_BOTH
#endif

/* What word `i` of memory is after gpu_fill: no two leaves, and no two fillings, are the same. */
static inline GPU_BOTH uint64_t gpu_word(uint64_t seed, uint64_t i)
{
	uint64_t x = (i + (seed << 40)) * 0x9e3779b97f4a7c15ull;
	return (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
}

/* Of 256 threads: enough of them to be held up by memory alone, and for little memory no more than have something to do. */
static inline unsigned gpu_blocks(uint64_t bytes)
{
	uint64_t each = 64 << 10, blocks = bytes / each + 1;
	return blocks < 2048 ? (unsigned)blocks : 2048;
}

/* All whole words of the memory. */
int gpu_fill(void *memory, unsigned long long bytes, uint64_t seed, void *stream);
/* Reads all of the memory and writes nothing. */
int gpu_sweep(const void *memory, unsigned long long bytes, unsigned blocks, unsigned long long *sum, void *stream);
/* rounds times over n values. */
int gpu_work(float *values, unsigned long long n, unsigned rounds, unsigned blocks, void *stream);
/* As many of its blocks as the current device has places for at a time. */
int gpu_work_blocks(unsigned *blocks);
/* A stream of ordinary priority, as a program has for its training, which does not synchronise with the default stream. */
int gpu_work_stream(void **stream);

#ifdef __cplusplus
}
#endif

#endif
