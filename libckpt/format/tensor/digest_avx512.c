/* XXH3-64 with AVX-512F, as in digest_avx2.c. Called only where CPU and operating system have AVX-512F. */
#include "format/tensor/digest_path.h"

#if DIGEST_X86
#pragma GCC target("avx512f")
#define XXH_VECTOR 3 /* XXH_AVX512 */
#define XXH_PREFETCH_DIST DIGEST_PREFETCH
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t digest_leaf_avx512(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}
#endif
