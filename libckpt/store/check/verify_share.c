#include "store/check/verify_private.h"

/* A well mixed 64-bit value of seed, file and group: the finaliser of splitmix64. */
static uint64_t mix(uint64_t seed, uint64_t file, uint64_t group)
{
	uint64_t x = seed + file * 0x9e3779b97f4a7c15ull + group * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

bool share_has(const struct verify_options *opts, uint64_t file, uint64_t leaf, uint64_t nleaves)
{
	if (opts->share >= 1)
		return true;
	uint64_t group = leaf / GROUP_LEAVES, ngroups = div_up(nleaves, GROUP_LEAVES);
	if (group == mix(opts->seed, file, UINT64_MAX) % ngroups)
		return true;
	return (double)mix(opts->seed, file, group) < opts->share * 0x1p64;
}

uint64_t share_bytes(const struct verify_options *opts, uint64_t index, const struct manifest_file *file)
{
	uint64_t nleaves = 0, leaf = 0, bytes = 0;
	for (uint32_t i = 0; i < file->npieces; i++)
		nleaves += leaf_count(file->pieces[i].bytes);
	for (uint32_t i = 0; i < file->npieces; i++) {
		for (uint64_t at = 0; at < file->pieces[i].bytes; at += LEAF_SIZE, leaf++) {
			if (share_has(opts, index, leaf, nleaves))
				bytes += min_u64(file->pieces[i].bytes - at, LEAF_SIZE);
		}
	}
	return bytes;
}
