/*
 * One block of packed gradients (compress.h): the same arithmetic, bit for bit, on the host and in kernels. What is added
 * up is so in the order of the elements, and no product is joined with a sum.
 */
#ifndef CKPT_TRAINER_COMPRESS_BLOCK_H
#define CKPT_TRAINER_COMPRESS_BLOCK_H

#include <math.h>
#include <stdint.h>

#include "common/compress.h"

#ifdef __CUDACC__
#define COMPRESS_ON_DEVICE __host__ __device__
#else
#define COMPRESS_ON_DEVICE
#endif

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
union packed_block {
	struct int8_block int8;
	struct topk_block topk;
	struct sign_block sign;
	float floats[sizeof(struct int8_block) / sizeof(float)]; /* of the largest */
};

/* What a kernel's compiler would join with a sum. */
static inline COMPRESS_ON_DEVICE float compress_product(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fmul_rn(a, b);
#else
	return a * b;
#endif
}

/* NaN where any element is not finite, else 0. */
static inline COMPRESS_ON_DEVICE float compress_taint(const float *x)
{
	float sum = 0;

	for (int i = 0; i < COMPRESS_BLOCK; i++)
		sum += compress_product(x[i], 0.0f);
	return sum;
}

static inline COMPRESS_ON_DEVICE void compress_pack_int8(const float *x, struct int8_block *to)
{
	float most = 0;

	for (int i = 0; i < COMPRESS_BLOCK; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	to->scale = most / 127.0f + compress_taint(x);
	for (int i = 0; i < COMPRESS_BLOCK; i++) {
		float steps = to->scale > 0 ? x[i] / to->scale : 0;

		to->value[i] = (int8_t)(steps < 0 ? steps - 0.5f : steps + 0.5f);
	}
}

static inline COMPRESS_ON_DEVICE void compress_pack_topk(const float *x, struct topk_block *to)
{
	uint8_t taken[COMPRESS_BLOCK] = {0};
	float bad = compress_taint(x);

	for (int k = 0; k < COMPRESS_TOP; k++) {
		int best = k;
		float most = -1;

		for (int i = 0; i < COMPRESS_BLOCK; i++) {
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

static inline COMPRESS_ON_DEVICE void compress_pack_signs(const float *x, struct sign_block *to)
{
	float sum = 0;

	for (int i = 0; i < COMPRESS_BLOCK / 8; i++)
		to->negative[i] = 0;
	for (int i = 0; i < COMPRESS_BLOCK; i++) {
		sum += fabsf(x[i]);
		if (x[i] < 0)
			to->negative[i / 8] = (uint8_t)(to->negative[i / 8] | 1u << (i % 8));
	}
	to->magnitude = sum / (float)COMPRESS_BLOCK + compress_taint(x);
}

static inline COMPRESS_ON_DEVICE void compress_pack_block(enum compress_kind kind, const float *x,
							  union packed_block *to)
{
	if (kind == COMPRESS_INT8)
		compress_pack_int8(x, &to->int8);
	else if (kind == COMPRESS_TOPK)
		compress_pack_topk(x, &to->topk);
	else
		compress_pack_signs(x, &to->sign);
}

/* Element i of what was packed. */
static inline COMPRESS_ON_DEVICE float compress_element(enum compress_kind kind, const union packed_block *b, int i)
{
	float value = 0;

	if (kind == COMPRESS_INT8)
		return compress_product(b->int8.scale, (float)b->int8.value[i]);
	if (kind == COMPRESS_1BIT)
		return b->sign.negative[i / 8] >> (i % 8) & 1 ? -b->sign.magnitude : b->sign.magnitude;
	for (int k = 0; k < COMPRESS_TOP; k++)
		if (b->topk.at[k] == i)
			value = b->topk.value[k];
	return value;
}

#endif
