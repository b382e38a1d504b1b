/* Kernels with one mistake each, or without it, for the memory model. Each returns a cudaError_t. */
#ifndef CKPT_TESTS_WEAK_PROBE_H
#define CKPT_TESTS_WEAK_PROBE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each block writes a word and counts itself; the last one that comes sums what all wrote. fences: bit 0 in front of the count, bit 1 behind. */
int probe_last_block(unsigned blocks, uint32_t *parts, unsigned *arrived, uint32_t *sum, int fences);
/* Lane 0 of each of four warps sums what its lanes wrote to shared memory, in two blocks: behind a __syncwarp, or behind a shuffle alone. */
int probe_warp(uint32_t *out, int synced);
/* Each thread reads what a thread of another warp wrote: behind a __syncthreads, or a __syncwarp. */
int probe_block(uint32_t *out, int barrier);
/* Writes data, a flag that the host reads, with a fence for the system between, for the device alone (1), or none (0). */
int probe_host(uint32_t *data, uint32_t *flag, int fence);
/* All threads count with atomics: no fault. */
int probe_counter(unsigned blocks, unsigned *counter);
/* All lanes of a warp add one to a plain word, each once. */
int probe_lost_update(unsigned *word);

#ifdef __cplusplus
}
#endif

#endif
