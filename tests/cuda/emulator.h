/* Kernels on the host: the very source of a .cu file, compiled as C++ with tests/cuda first on the include path, so that its
 * <cuda_runtime.h> is the one of this folder. Write kernels that both compilers take:
 *
 *	#include <cuda_runtime.h>
 *	static __global__ void twice(float *x, int n) { … threadIdx, __shared__, __syncthreads, __shfl_xor_sync, atomicAdd … }
 *	int twice_launch(…)  { cudaLaunchConfig_t at = {}; at.gridDim = …; return cudaLaunchKernelEx(&at, twice, x, n); }
 *
 * cudaLaunchKernelEx in place of <<<>>>, and __shared__ of fixed size in place of extern. In CMake:
 *
 *	ckpt_emulated(NAME SOURCES file.cu…)          makes an object library; `emulator` is linked with it
 *	ckpt_emulated(NAME WEAK SOURCES file.cu…)     the same for the memory model (weak.h): see below
 *
 * The threads of a block are fibers of the calling thread. One runs until it ends or comes to a point where threads meet; which is next
 * is drawn from the seed, as is the order of the blocks: what no barrier orders has no order. A launch returns when the kernel has
 * ended. Memory is the host's, so that the address sanitizer sees every access; a 16-byte load from an odd address is found by the
 * undefined-behaviour sanitizer. What would hang or be undefined on a device (a barrier that an ended thread does not come to, a shuffle from
 * a lane that is not there) ends the program with a sentence. Not emulated: blocks that wait for each other, textures, tensor cores,
 * dynamic parallelism.
 *
 * Kernels that were compiled WEAK lose their turn at any access, and each access is held against the memory model: two threads of a
 * grid that touch the same bytes, one of them writing, with nothing between that orders them, are a fault, also where the order
 * in which they ran was a good one. */
#ifndef CKPT_TESTS_CUDA_EMULATOR_H
#define CKPT_TESTS_CUDA_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the next launches, of all threads. 1 at first. */
void emulator_seed(uint64_t seed);
/* Launches since then. */
uint64_t emulator_launches(void);

/* Faults of WEAK kernels so far, and the first of them in words. */
uint64_t emulator_faults(void);
const char *emulator_fault(void);
void emulator_forget_faults(void);
/* The host looks there while kernels run: whoever writes there must have had a fence for the system before, so that the host sees what was
 * done before. */
void emulator_host_reads(const void *at, size_t n);

/* A device that kernels are launched on, in place of the host's thread. All return a code of CUDA. */
struct emulated_device {
	int processors;
	/* Of blocks of so many threads each processor has a place for so many. */
	int (*places)(int threads, int *blocks);
	/* A new stream, which does not synchronise with the default stream. */
	int (*stream)(void **stream);
	/* To run run(arg) once, when its turn on the stream has come; not for NULL, launches for which run at once. */
	int (*put)(void *stream, unsigned blocks, unsigned threads, void (*run)(void *arg), void *arg);
};

/* From now on. NULL, as at first: none, and every stream is the host's thread. */
void emulator_device(const struct emulated_device *device);

#ifdef __cplusplus
}
#endif

#endif
