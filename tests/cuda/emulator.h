/* Kernels on the host: the very source of a .cu file, compiled as C++ with tests/cuda first on the include path, so that its
 * <cuda_runtime.h> is the one of this folder. Write kernels that both compilers take:
 *
 *	#include <cuda_runtime.h>
 *	static __global__ void twice(float *x, int n) { … threadIdx, __shared__, __syncthreads, __shfl_xor_sync, atomicAdd … }
 *	int twice_launch(…)  { cudaLaunchConfig_t at = {}; at.gridDim = …; return cudaLaunchKernelEx(&at, twice, x, n); }
 *
 * cudaLaunchKernelEx in place of <<<>>>, and __shared__ of fixed size in place of extern. In CMake:
 *
 *	ckpt_emulated(NAME SOURCES file.cu…)     makes an object library; `emulator` is linked with it
 *
 * The threads of a block are fibers of the calling thread. One runs until it ends or comes to a point where threads meet; which is next
 * is drawn from the seed, as is the order of the blocks: what no barrier orders has no order. A launch returns when the kernel has
 * ended. Memory is the host's, so that the address sanitizer sees every access; a 16-byte load from an odd address is found by the
 * undefined-behaviour sanitizer. What would hang or be undefined on a device (a barrier that an ended thread does not come to, a shuffle from
 * a lane that is not there) ends the program with a sentence. Not emulated: the memory model of several blocks that run at a
 * time, textures, tensor cores, dynamic parallelism. */
#ifndef CKPT_TESTS_CUDA_EMULATOR_H
#define CKPT_TESTS_CUDA_EMULATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the next launches, of all threads. 1 at first. */
void emulator_seed(uint64_t seed);
/* Launches since then. */
uint64_t emulator_launches(void);

#ifdef __cplusplus
}
#endif

#endif
