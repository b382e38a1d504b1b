#include "common/compress.h"

#include <errno.h>
#include <string.h>

#include "common/compress_block.h"

enum { GRAIN = 16 };

_Static_assert(sizeof(struct int8_block) % sizeof(float) == 0 && sizeof(struct topk_block) % sizeof(float) == 0 &&
		       sizeof(struct sign_block) % sizeof(float) == 0,
	       "blocks are whole floats");

size_t compress_block_floats(enum compress_kind kind)
{
	static const size_t bytes[] = {[COMPRESS_NONE] = COMPRESS_BLOCK * sizeof(float),
				       [COMPRESS_INT8] = sizeof(struct int8_block),
				       [COMPRESS_TOPK] = sizeof(struct topk_block),
				       [COMPRESS_1BIT] = sizeof(struct sign_block)};

	return bytes[kind] / sizeof(float);
}

int compress_kind_of(const char *name, enum compress_kind *kind)
{
	static const char *const names[] = {
		[COMPRESS_NONE] = "none", [COMPRESS_INT8] = "int8", [COMPRESS_TOPK] = "topk", [COMPRESS_1BIT] = "1bit"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]))
			continue;
		*kind = (enum compress_kind)i;
		return 0;
	}
	return -EINVAL;
}

size_t compress_size(enum compress_kind kind, size_t count)
{
	size_t blocks = count / COMPRESS_BLOCK + (count % COMPRESS_BLOCK != 0);

	return (blocks * compress_block_floats(kind) + GRAIN - 1) / GRAIN * GRAIN;
}

static void unpack(enum compress_kind kind, const float *packed, float *x)
{
	union packed_block b;

	memcpy(&b, packed, compress_block_floats(kind) * sizeof(float));
	for (int i = 0; i < COMPRESS_BLOCK; i++)
		x[i] = compress_element(kind, &b, i);
}

static void pack(enum compress_kind kind, const float *x, float *to)
{
	union packed_block b;

	compress_pack_block(kind, x, &b);
	memcpy(to, &b, compress_block_floats(kind) * sizeof(float));
}

void compress_pack(enum compress_kind kind, const float *from, const float *residual, size_t count, float *to,
		   float *left)
{
	float wanted[COMPRESS_BLOCK], made[COMPRESS_BLOCK];

	memset(to, 0, compress_size(kind, count) * sizeof(float));
	for (size_t at = 0; at < count; at += COMPRESS_BLOCK, to += compress_block_floats(kind)) {
		size_t n = count - at < COMPRESS_BLOCK ? count - at : COMPRESS_BLOCK;

		for (size_t i = 0; i < COMPRESS_BLOCK; i++)
			wanted[i] = i < n ? from[at + i] + residual[at + i] : 0;
		pack(kind, wanted, to);
		unpack(kind, to, made);
		for (size_t i = 0; i < n; i++)
			left[at + i] = wanted[i] - made[i];
	}
}

void compress_add(enum compress_kind kind, const float *packed, size_t begin, size_t end, float *sum)
{
	float made[COMPRESS_BLOCK];

	for (size_t block = begin / COMPRESS_BLOCK; block * COMPRESS_BLOCK < end; block++) {
		size_t at = block * COMPRESS_BLOCK;

		unpack(kind, packed + block * compress_block_floats(kind), made);
		for (size_t i = 0; i < COMPRESS_BLOCK; i++)
			if (at + i >= begin && at + i < end)
				sum[at + i] += made[i];
	}
}
