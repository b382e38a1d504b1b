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

/* A factor that is odd, and another one in each of 2^31 places: whatever changes in one element changes the sum. 32-bit factors, so that
 * vectors of a processor can do it. */
static inline DIGEST_ON_DEVICE uint64_t digest_mix(uint32_t bits, uint64_t index)
{
	uint32_t factor = (uint32_t)index * UINT32_C(0x9e3779b2) + 1;

	return (uint64_t)bits * factor;
}

#endif
