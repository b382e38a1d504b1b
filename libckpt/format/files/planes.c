/* Written so that compilers make vector code of it: narrowing and widening of whole elements, which may stand anywhere. */
#include "format/files/planes.h"

#include <string.h>

typedef uint16_t __attribute__((aligned(1), may_alias)) element2;
typedef uint32_t __attribute__((aligned(1), may_alias)) element4;
typedef uint64_t __attribute__((aligned(1), may_alias)) element8;

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the planes of the format are those of little-endian elements"
#endif

#define SPLIT_OF(size)                                                                                                 \
	static void split##size(const element##size *restrict src, uint32_t n, unsigned plane, uint8_t *restrict dst)  \
	{                                                                                                              \
		for (uint32_t i = 0; i < n; i++)                                                                       \
			dst[i] = (uint8_t)(src[i] >> 8 * plane);                                                       \
	}
SPLIT_OF(2)
SPLIT_OF(4)
SPLIT_OF(8)

void planes_split(const void *elements, uint32_t n, unsigned size, unsigned plane, uint8_t *dst)
{
	if (size == 2)
		split2(elements, n, plane, dst);
	else if (size == 4)
		split4(elements, n, plane, dst);
	else if (size == 8)
		split8(elements, n, plane, dst);
	else
		memcpy(dst, elements, n);
}

static void join2(const uint8_t *restrict a, const uint8_t *restrict b, uint32_t n, element2 *restrict dst)
{
	for (uint32_t i = 0; i < n; i++)
		dst[i] = (uint16_t)(a[i] | b[i] << 8);
}

static void join4(const uint8_t *const planes[], uint32_t n, element4 *restrict dst)
{
	const uint8_t *restrict a = planes[0], *restrict b = planes[1], *restrict c = planes[2],
				*restrict d = planes[3];
	for (uint32_t i = 0; i < n; i++)
		dst[i] = a[i] | (uint32_t)b[i] << 8 | (uint32_t)c[i] << 16 | (uint32_t)d[i] << 24;
}

static void join8(const uint8_t *const planes[], uint32_t n, element8 *restrict dst)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t v = 0;
		for (unsigned p = 0; p < 8; p++)
			v |= (uint64_t)planes[p][i] << 8 * p;
		dst[i] = v;
	}
}

void planes_join(const uint8_t *const planes[], uint32_t n, unsigned size, void *elements)
{
	if (size == 2)
		join2(planes[0], planes[1], n, elements);
	else if (size == 4)
		join4(planes, n, elements);
	else if (size == 8)
		join8(planes, n, elements);
	else
		memcpy(elements, planes[0], n);
}
