/* The simulator's source of randomness: one seed, one sequence (SplitMix64, Steele et al. 2014). */
#ifndef CKPT_SIM_RNG_H
#define CKPT_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t mix64(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint64_t rng_next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return mix64(*state);
}

/* 0 <= result < n */
static inline uint64_t rng_below(uint64_t *state, uint64_t n)
{
	return rng_next(state) % n;
}

static inline bool rng_chance(uint64_t *state, unsigned percent)
{
	return rng_below(state, 100) < percent;
}

#endif
