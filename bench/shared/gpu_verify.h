/* Whether what a bench measured is what it says: ends the program where it is not. */
#ifndef CKPT_BENCH_GPU_VERIFY_H
#define CKPT_BENCH_GPU_VERIFY_H

#include "gpu.h"

/* Memory of the host holds what gpu_fill made of `bytes` bytes from byte `at` of its memory on; a word is looked at in
 * each page, and the last. */
void gpu_expect_words(const char *what, const char *host, uint64_t bytes, uint64_t seed, uint64_t at);
/* The digests are those of the leaves of these bytes. */
void gpu_expect_leaves(const char *what, const char *packed, uint64_t bytes, const uint64_t *leaves);
/* Bytes of the device, in memory of the host that is not pinned. Both at most a leaf. */
void gpu_read(struct gpu *gpu, void *host, const void *memory, size_t bytes);
/* The first and the last leaf of this memory of the device, as gpu_expect_words. */
void gpu_expect_filled(struct gpu *gpu, const char *what, const char *memory, uint64_t bytes, uint64_t seed,
		       uint64_t at);

#endif
