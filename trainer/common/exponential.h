/*
 * exp() from additions and multiplications only: the C library chooses its version by CPU, so its last bit may
 * differ between machines; this one may not. It also vectorizes. Relative error below 3e-7; the argument is
 * clamped to [-87, 88], so the result is always finite and positive (a NaN may give any value).
 */
#ifndef CKPT_TRAINER_EXPONENTIAL_H
#define CKPT_TRAINER_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

static inline float exponential(float x)
{
	const float round_to_int = 12582912.0f; /* 1.5 * 2^23: adding it leaves the integer in the low bits */

	x = x < -87.0f ? -87.0f : x;
	x = x > 88.0f ? 88.0f : x;
	float whole = (x * 1.44269504f + round_to_int) - round_to_int;
	float r =
		(x - whole * 0.693359375f) + whole * 2.12194440e-4f; /* ln 2 in two parts; the first product is exact */
	float p = 1.0f / 720;

	p = p * r + 1.0f / 120;
	p = p * r + 1.0f / 24;
	p = p * r + 1.0f / 6;
	p = p * r + 0.5f;
	p = p * r + 1.0f;
	p = p * r + 1.0f;
	uint32_t bits = (uint32_t)((int32_t)whole + 127) << 23;
	float scale;
	memcpy(&scale, &bits, sizeof(scale));
	return p * scale;
}

#endif
