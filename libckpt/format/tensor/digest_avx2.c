/* XXH3-64 with AVX2: xxHash's own code, compiled here because the shared library can not be told the distance of its
 * prefetches, and not every distribution's dispatches. Called only where the CPU has AVX2. */
#include "format/tensor/digest_path.h"

#if DIGEST_X86
#pragma GCC target("avx2")
#define XXH_VECTOR 2 /* XXH_AVX2 */
#define XXH_PREFETCH_DIST DIGEST_PREFETCH
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t digest_leaf_avx2(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}
#endif
