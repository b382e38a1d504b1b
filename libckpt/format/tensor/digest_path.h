/* The ways in which a leaf can be digested on this architecture; digest.c takes the first usable one. Apart from
 * digest.c only the test and the benchmark look in here. */
#ifndef CKPT_FORMAT_DIGEST_PATH_H
#define CKPT_FORMAT_DIGEST_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct digest_path {
	const char *name;
	bool (*usable)(void); /* by this CPU and operating system */
	uint64_t (*leaf)(const void *data, size_t len);
};

/* All paths that were compiled, fastest first; the last one is always usable. Static storage. */
const struct digest_path *digest_paths(size_t *count);

/* The vector paths are built with gcc on x86-64; elsewhere the library's own XXH3 is all there is. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DIGEST_X86 1
#else
#define DIGEST_X86 0
#endif

/* How far ahead of the accumulator memory is fetched. xxHash's 384 and 512 bytes are made for data in the cache; from
 * memory they reach 0.8 to 0.9 of a plain read, 8 KiB reach all of it (bench/digest.c). The distance runs on into the
 * next leaf on purpose. */
#define DIGEST_PREFETCH 8192

#if DIGEST_X86
uint64_t digest_leaf_avx2(const void *data, size_t len);
uint64_t digest_leaf_avx512(const void *data, size_t len);
#endif

#endif
