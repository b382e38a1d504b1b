/*
 * Counter-based random numbers: a pure function of (seed, stream, counter), so that any element can be drawn
 * by any rank in any order. Integer arithmetic and exact conversions only: the same bits on every machine.
 * Not for secrets.
 */
#ifndef CKPT_TRAINER_RNG_H
#define CKPT_TRAINER_RNG_H

#include <stdint.h>

static inline uint64_t rng_mix(uint64_t x)
{
	x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return x ^ (x >> 32);
}

/* 64 uniform bits. */
static inline uint64_t rng_u64(uint64_t seed, uint64_t stream, uint64_t counter)
{
	uint64_t x = rng_mix(seed + UINT64_C(0x9e3779b97f4a7c15));

	x = rng_mix(x ^ (stream + UINT64_C(0xd1b54a32d192ed03)));
	return rng_mix(x ^ (counter + UINT64_C(0x8cb92ba72f3d8dd7)));
}

/* Uniform in [0, bound); bound > 0. The bias is below bound / 2^64. */
static inline uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t counter, uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)rng_u64(seed, stream, counter) * bound) >> 64);
}

/*
 * Mean 0, standard deviation 1, nearly normal: the sum of four uniform 16-bit numbers (bounded by 3.5).
 * No logarithm or cosine, whose last bit depends on the C library.
 */
static inline float rng_normal(uint64_t seed, uint64_t stream, uint64_t counter)
{
	uint64_t bits = rng_u64(seed, stream, counter);
	int32_t sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (int32_t)((bits >> (16 * i)) & 0xffff);
	return (float)(sum - 2 * 65535) * (1.7320508f / 65536.0f);
}

#endif
