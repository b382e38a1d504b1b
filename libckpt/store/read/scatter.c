#include "store/read/scatter.h"

#include "base/bytes.h"

#include <string.h>

/* Rows of `width` bytes that stand at equal distances on both sides. */
struct comb {
	uint8_t *dst;
	const uint8_t *src;
	uint64_t dst_step, src_step; /* bytes */
	uint64_t width, rows;
};

/* A width that the compiler knows becomes a load and a store. */
#define COMB_OF(n)                                                                                                     \
	static void comb_##n(struct comb c)                                                                            \
	{                                                                                                              \
		for (uint64_t i = 0; i < c.rows; i++, c.dst += c.dst_step, c.src += c.src_step)                        \
			memcpy(c.dst, c.src, n);                                                                       \
	}
COMB_OF(1)
COMB_OF(2)
COMB_OF(4)
COMB_OF(8)
COMB_OF(16)
COMB_OF(32)
COMB_OF(64)

static void comb_any(struct comb c)
{
	for (uint64_t i = 0; i < c.rows; i++, c.dst += c.dst_step, c.src += c.src_step)
		memcpy(c.dst, c.src, c.width);
}

static void comb_copy(struct comb c)
{
	switch (c.width) {
	case 1:
		return comb_1(c);
	case 2:
		return comb_2(c);
	case 4:
		return comb_4(c);
	case 8:
		return comb_8(c);
	case 16:
		return comb_16(c);
	case 32:
		return comb_32(c);
	case 64:
		return comb_64(c);
	default:
		return comb_any(c);
	}
}

/* How many rows, from the one at o->next on, are whole, equally spaced and in front of `to`; 0 when the walk stands inside
 * a row. `row` is the run that overlap_next would give. */
static uint64_t comb_rows(const struct overlap *o, const struct region_run *row, uint64_t to)
{
	if (o->ndim < 2)
		return 0;
	uint32_t outer = o->ndim - 2;
	uint64_t width = o->extent[outer + 1];
	if (row->count != width || row->src + width > to)
		return 0;
	uint64_t at = o->next / width % o->extent[outer];
	uint64_t rows = min_u64(o->extent[outer] - at, (o->end - o->next) / width);
	return min_u64(rows, (to - width - row->src) / o->src_step[outer] + 1);
}

uint64_t scatter(struct overlap *o, uint64_t from, uint64_t to, unsigned size, const void *image, void *data)
{
	uint64_t copied = 0;
	overlap_seek(o, from);
	for (;;) {
		struct overlap at = *o;
		struct region_run run;
		if (!overlap_next(o, &run) || run.src >= to)
			return copied * size;
		uint8_t *dst = (uint8_t *)data + run.dst * size;
		const uint8_t *src = (const uint8_t *)image + (run.src - from) * size;
		uint64_t rows = comb_rows(&at, &run, to);
		if (rows < 2) {
			uint64_t count = min_u64(run.count, to - run.src);
			memcpy(dst, src, count * size);
			copied += count;
			continue;
		}
		comb_copy((struct comb){dst, src, o->dst_step[o->ndim - 2] * size, o->src_step[o->ndim - 2] * size,
					run.count * size, rows});
		o->next = at.next + rows * run.count;
		copied += rows * run.count;
	}
}
