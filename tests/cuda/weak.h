/* The memory model of a GPU, for kernels that were compiled for it (ckpt_emulated(… WEAK)): what one thread writes another may read, or write,
 * only where something orders the two. Within a warp that is __syncwarp, and no shuffle; within a block __syncthreads; beyond it an
 * atomic or a volatile access with a fence on both sides. Each access is looked at, in whatever order the threads happened to run; what
 * would be a race on some GPU is a fault here. And a thread may lose its turn at any access: warps do not run in lockstep.
 *
 * The compiler's instrumentation for its thread sanitizer calls here before each access; the sanitizer's own library is not linked. */
#ifndef CKPT_TESTS_CUDA_WEAK_H
#define CKPT_TESTS_CUDA_WEAK_H

#include <stddef.h>
#include <stdint.h>

/* ---- what the emulator tells; threads are numbers in their block ---- */

void weak_launch(uint64_t blocks, unsigned threads);
void weak_block(uint64_t number);
/* All of them have come to one point that orders what is before it and what is behind it. */
void weak_meet(const unsigned *threads, unsigned n);
void weak_fence(unsigned thread, bool system);
/* It is about to do an atomic operation there. */
void weak_atomic(unsigned thread, const void *at, size_t n);

/* ---- and what it is asked ---- */

/* The thread that runs; -1: none, it is the host. */
int emulator_thread();
/* Something of its own stack. */
bool emulator_own_stack(const void *at);
/* Others may run first. */
void emulator_yield();
uint64_t emulator_draw(uint64_t n);

#endif
