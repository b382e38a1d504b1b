/* Vectors and codes of CUDA. The vectors are aligned as on a device, so that a misaligned access is seen. */
#ifndef CKPT_TESTS_CUDA_EMULATED_TYPES_H
#define CKPT_TESTS_CUDA_EMULATED_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define EMULATED_VECTOR(name, type, align2, align4)                                                                    \
	struct alignas(align2) name##2                                                                                 \
	{                                                                                                              \
		type x, y;                                                                                             \
	};                                                                                                             \
	struct name##3                                                                                                 \
	{                                                                                                              \
		type x, y, z;                                                                                          \
	};                                                                                                             \
	struct alignas(align4) name##4                                                                                 \
	{                                                                                                              \
		type x, y, z, w;                                                                                       \
	};                                                                                                             \
	static inline name##2 make_##name##2(type x, type y)                                                           \
	{                                                                                                              \
		return {x, y};                                                                                         \
	}                                                                                                              \
	static inline name##4 make_##name##4(type x, type y, type z, type w)                                           \
	{                                                                                                              \
		return {x, y, z, w};                                                                                   \
	}
EMULATED_VECTOR(uchar, unsigned char, 2, 4)
EMULATED_VECTOR(ushort, unsigned short, 4, 8)
EMULATED_VECTOR(int, int, 8, 16)
EMULATED_VECTOR(uint, unsigned, 8, 16)
EMULATED_VECTOR(ulonglong, unsigned long long, 16, 16)
EMULATED_VECTOR(float, float, 8, 16)
EMULATED_VECTOR(double, double, 16, 16)
#undef EMULATED_VECTOR

struct dim3 {
	unsigned x, y, z;
	constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
	{
	}
};

enum cudaError_t {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorInvalidDevice = 101,
	cudaErrorNotReady = 600,
};

enum cudaMemcpyKind {
	cudaMemcpyHostToHost,
	cudaMemcpyHostToDevice,
	cudaMemcpyDeviceToHost,
	cudaMemcpyDeviceToDevice,
	cudaMemcpyDefault
};

#endif
