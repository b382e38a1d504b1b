#include "gpu_verify.h"

#include "gpu_load.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <inttypes.h>
#include <string.h>

enum { PAGE = 4096 };

static void expect_word(const char *what, const char *host, uint64_t offset, uint64_t seed, uint64_t at)
{
	uint64_t word, due = gpu_word(seed, (at + offset) / sizeof(word));
	memcpy(&word, host + offset, sizeof(word));
	if (word != due)
		gpu_end("%s: other bytes than those of the GPU: at byte %" PRIu64 " stands %016" PRIx64
			", not %016" PRIx64,
			what, at + offset, word, due);
}

void gpu_expect_words(const char *what, const char *host, uint64_t bytes, uint64_t seed, uint64_t at)
{
	uint64_t whole = bytes / sizeof(uint64_t) * sizeof(uint64_t);
	for (uint64_t offset = 0; offset < whole; offset += PAGE)
		expect_word(what, host, offset, seed, at);
	if (whole)
		expect_word(what, host, whole - sizeof(uint64_t), seed, at);
}

void gpu_expect_leaves(const char *what, const char *packed, uint64_t bytes, const uint64_t *leaves)
{
	for (uint64_t at = 0, leaf = 0; at < bytes; at += LEAF_SIZE, leaf++)
		if (digest_leaf(packed + at, min_u64(bytes - at, LEAF_SIZE)) != leaves[leaf])
			gpu_end("%s: the GPU's digest of leaf %" PRIu64 " is not that of its bytes", what, leaf);
}

void gpu_read(struct gpu *gpu, void *host, const void *memory, size_t bytes)
{
	gpu_check(gpu, gpu->rt->copy(gpu->rt, host, memory, bytes, gpu->stream), "reading the GPU's memory");
	gpu_drain(gpu, gpu->stream);
}

void gpu_expect_filled(struct gpu *gpu, const char *what, const char *memory, uint64_t bytes, uint64_t seed,
		       uint64_t at)
{
	char host[LEAF_SIZE];
	uint64_t n = min_u64(bytes, LEAF_SIZE), last = (bytes - n) / sizeof(uint64_t) * sizeof(uint64_t);
	gpu_read(gpu, host, memory, n);
	gpu_expect_words(what, host, n, seed, at);
	gpu_read(gpu, host, memory + last, n);
	gpu_expect_words(what, host, n, seed, at + last);
}
