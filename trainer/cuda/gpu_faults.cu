#include "gpu_faults.h"

#include "gpu_common.cuh"

/* In the emulator, which has no context to lose, they do nothing. */
static __global__ void trap_kernel()
{
#ifdef __CUDA_ARCH__
	asm volatile("trap;");
#endif
}

static __global__ void illegal_address_kernel(volatile int *nowhere)
{
#ifdef __CUDA_ARCH__
	*nowhere = 1;
#else
	(void)nowhere;
#endif
}

static __global__ void never_end_kernel()
{
#ifdef __CUDA_ARCH__
	while (true)
		__nanosleep(1000);
#endif
}

int gpu_trap(void *stream)
{
	return launch(dim3(1), 1, stream, trap_kernel);
}

int gpu_illegal_address(void *stream)
{
	return launch(dim3(1), 1, stream, illegal_address_kernel, reinterpret_cast<volatile int *>(uintptr_t{64}));
}

int gpu_never_end(void *stream)
{
	return launch(dim3(1), 1, stream, never_end_kernel);
}
