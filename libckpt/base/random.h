/* Random: numbers that a seed determines, alike on each machine. Not for secrets. splitmix64, of G. L. Steele, D. Lea and
 * C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
#ifndef CKPT_BASE_RANDOM_H
#define CKPT_BASE_RANDOM_H

#include <stdint.h>

/* The next of them; *state is the seed before the first. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

#endif
