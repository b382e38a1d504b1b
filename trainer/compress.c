#include "compress.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { GRAIN = 16 };

struct int8_block {
	float scale;
	int8_t value[COMPRESS_BLOCK];
};
struct topk_block {
	float value[COMPRESS_TOP];
	uint8_t at[COMPRESS_TOP];
};
struct sign_block {
	float magnitude;
	uint8_t negative[COMPRESS_BLOCK / 8];
};
_Static_assert(sizeof(struct int8_block) % sizeof(float) == 0 && sizeof(struct topk_block) % sizeof(float) == 0 &&
		       sizeof(struct sign_block) % sizeof(float) == 0,
	       "blocks are whole floats");

static size_t block_floats(enum compress_kind kind)
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

	return (blocks * block_floats(kind) + GRAIN - 1) / GRAIN * GRAIN;
}

/* NaN where any element is not finite, else 0. */
static float taint(const float *x)
{
	float sum = 0;

	for (size_t i = 0; i < COMPRESS_BLOCK; i++)
		sum += x[i] * 0.0f;
	return sum;
}

static void pack_int8(const float *x, struct int8_block *to)
{
	float most = 0;

	for (size_t i = 0; i < COMPRESS_BLOCK; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	to->scale = most / 127.0f + taint(x);
	for (size_t i = 0; i < COMPRESS_BLOCK; i++) {
		float steps = to->scale > 0 ? x[i] / to->scale : 0;

		to->value[i] = (int8_t)(steps < 0 ? steps - 0.5f : steps + 0.5f);
	}
}

static void pack_topk(const float *x, struct topk_block *to)
{
	uint8_t taken[COMPRESS_BLOCK] = {0};
	float bad = taint(x);

	for (size_t k = 0; k < COMPRESS_TOP; k++) {
		size_t best = k;
		float most = -1;

		for (size_t i = 0; i < COMPRESS_BLOCK; i++) {
			if (taken[i] || !(fabsf(x[i]) > most))
				continue;
			best = i;
			most = fabsf(x[i]);
		}
		taken[best] = 1;
		to->at[k] = (uint8_t)best;
		to->value[k] = x[best] + bad;
	}
}

static void pack_signs(const float *x, struct sign_block *to)
{
	float sum = 0;

	memset(to->negative, 0, sizeof(to->negative));
	for (size_t i = 0; i < COMPRESS_BLOCK; i++) {
		sum += fabsf(x[i]);
		if (x[i] < 0)
			to->negative[i / 8] |= (uint8_t)(1u << (i % 8));
	}
	to->magnitude = sum / COMPRESS_BLOCK + taint(x);
}

static void unpack(enum compress_kind kind, const float *packed, float *x)
{
	union {
		struct int8_block int8;
		struct topk_block topk;
		struct sign_block sign;
	} b;

	memcpy(&b, packed, block_floats(kind) * sizeof(float));
	memset(x, 0, COMPRESS_BLOCK * sizeof(float));
	for (size_t i = 0; kind == COMPRESS_INT8 && i < COMPRESS_BLOCK; i++)
		x[i] = b.int8.scale * (float)b.int8.value[i];
	for (size_t i = 0; kind == COMPRESS_TOPK && i < COMPRESS_TOP; i++)
		x[b.topk.at[i]] = b.topk.value[i];
	for (size_t i = 0; kind == COMPRESS_1BIT && i < COMPRESS_BLOCK; i++)
		x[i] = b.sign.negative[i / 8] >> (i % 8) & 1 ? -b.sign.magnitude : b.sign.magnitude;
}

static void pack(enum compress_kind kind, const float *x, float *to)
{
	union {
		struct int8_block int8;
		struct topk_block topk;
		struct sign_block sign;
	} b;

	if (kind == COMPRESS_INT8)
		pack_int8(x, &b.int8);
	else if (kind == COMPRESS_TOPK)
		pack_topk(x, &b.topk);
	else
		pack_signs(x, &b.sign);
	memcpy(to, &b, block_floats(kind) * sizeof(float));
}

void compress_pack(enum compress_kind kind, const float *from, const float *residual, size_t count, float *to,
		   float *left)
{
	float wanted[COMPRESS_BLOCK], made[COMPRESS_BLOCK];

	memset(to, 0, compress_size(kind, count) * sizeof(float));
	for (size_t at = 0; at < count; at += COMPRESS_BLOCK, to += block_floats(kind)) {
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

		unpack(kind, packed + block * block_floats(kind), made);
		for (size_t i = 0; i < COMPRESS_BLOCK; i++)
			if (at + i >= begin && at + i < end)
				sum[at + i] += made[i];
	}
}
