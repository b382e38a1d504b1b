/* Kernels that show what the emulator does: compiled for it, called from test_emulator.c. Each returns a cudaError_t. */
#ifndef CKPT_TESTS_PROBE_H
#define CKPT_TESTS_PROBE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = the number of times that thread i of the grid ran; n may be less than the grid. */
int probe_count(unsigned blocks, unsigned threads, uint32_t *out, uint32_t n);
/* The sum of n words, by shared memory, shuffles and one atomic for each block. */
int probe_sum(unsigned blocks, unsigned threads, const uint32_t *words, uint32_t n, unsigned long long *sum);
/* Each block reverses `threads` words. Without the barrier it is wrong in some order. */
int probe_reverse(unsigned threads, uint32_t *words, int barrier);
/* For each of 32 lanes: shuffle by index, xor, up, down, and the ballot of odd words: 5 words. */
int probe_lanes(const uint32_t *words, uint32_t *out, int width);
/* Lanes of the lower half exchange among themselves while the upper half does something else. */
int probe_halves(uint32_t *out);
/* Order in which the blocks came. */
int probe_order(unsigned blocks, uint32_t *order);
/* What must end the program. */
int probe_hang(void);
int probe_lost_lane(void);
int probe_too_many_threads(void);

#ifdef __cplusplus
}
#endif

#endif
