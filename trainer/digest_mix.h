/*
 * What one element of a tensor gives to its digest, which is the sum of all (modulo 2^64): position dependent, and the same in any order of
 * summing, on the host and on a device.
 */
#ifndef CKPT_TRAINER_DIGEST_MIX_H
#define CKPT_TRAINER_DIGEST_MIX_H

#include <stdint.h>

#ifdef __CUDACC__
#define DIGEST_ON_DEVICE __device__
#else
#define DIGEST_ON_DEVICE
#endif

static inline DIGEST_ON_DEVICE uint64_t digest_mix(uint32_t bits, uint64_t index)
{
	uint64_t x = (bits + (index + 1) * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);

	return (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
}

#endif
