#include "inspect/difference.h"

#include "base/bytes.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct number {
	double re, im;
};

/* IEEE-like numbers of up to 16 bits. E4M3 is the variant without infinities, in which only all ones are NaN. */
static double small_float(unsigned bits, int exponent_bits, int mantissa_bits, bool infinities)
{
	unsigned mantissa = bits & ((1u << mantissa_bits) - 1), top = (1u << exponent_bits) - 1;
	unsigned exponent = bits >> mantissa_bits & top;
	int bias = (1 << (exponent_bits - 1)) - 1;
	double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
	if (exponent == top && infinities)
		return mantissa ? NAN : sign * INFINITY;
	if (exponent == top && mantissa == (1u << mantissa_bits) - 1)
		return NAN;
	if (!exponent)
		return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
	return sign * ldexp(mantissa | 1u << mantissa_bits, (int)exponent - bias - mantissa_bits);
}

/* The variants of one NaN (what would be -0), no infinities, and a bias that is higher by one. */
static double fnuz_float(unsigned bits, int exponent_bits, int mantissa_bits)
{
	unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
	int exponent = (int)(bits >> mantissa_bits & ((1u << exponent_bits) - 1)), bias = 1 << (exponent_bits - 1);
	double sign = bits & 0x80 ? -1 : 1;
	if (bits == 0x80)
		return NAN;
	if (!exponent)
		return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
	return sign * ldexp(mantissa | 1u << mantissa_bits, exponent - bias - mantissa_bits);
}

static double brain_float(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof(value));
	return value;
}

/* The machine's own type at p, as double. */
#define READ(type)                                                                                                     \
	({                                                                                                             \
		type value_;                                                                                           \
		memcpy(&value_, p, sizeof(value_));                                                                    \
		value_;                                                                                                \
	})

static struct number decode(enum dtype dtype, const uint8_t *p)
{
	switch (dtype) {
	case DTYPE_BOOL:
	case DTYPE_U8:
		return (struct number){*p, 0};
	case DTYPE_I8:
		return (struct number){READ(int8_t), 0};
	case DTYPE_F8_E5M2:
		return (struct number){small_float(*p, 5, 2, true), 0};
	case DTYPE_F8_E4M3:
		return (struct number){small_float(*p, 4, 3, false), 0};
	case DTYPE_F8_E4M3FNUZ:
		return (struct number){fnuz_float(*p, 4, 3), 0};
	case DTYPE_F8_E5M2FNUZ:
		return (struct number){fnuz_float(*p, 5, 2), 0};
	case DTYPE_F8_E8M0: /* a power of two, for scales */
		return (struct number){*p == 255 ? NAN : ldexp(1, *p - 127), 0};
	case DTYPE_I16:
		return (struct number){READ(int16_t), 0};
	case DTYPE_U16:
		return (struct number){READ(uint16_t), 0};
	case DTYPE_F16:
		return (struct number){small_float(READ(uint16_t), 5, 10, true), 0};
	case DTYPE_BF16:
		return (struct number){brain_float(READ(uint16_t)), 0};
	case DTYPE_I32:
		return (struct number){READ(int32_t), 0};
	case DTYPE_U32:
		return (struct number){READ(uint32_t), 0};
	case DTYPE_F32:
		return (struct number){READ(float), 0};
	case DTYPE_F64:
		return (struct number){READ(double), 0};
	case DTYPE_I64:
		return (struct number){(double)READ(int64_t), 0};
	case DTYPE_U64:
		return (struct number){(double)READ(uint64_t), 0};
	case DTYPE_C64: {
		struct number z = {READ(float), 0};
		p += sizeof(float);
		z.im = READ(float);
		return z;
	}
	case DTYPE_END:
		break;
	}
	return (struct number){0, 0};
}

/* Exact where doubles are not: whole numbers of 64 bits. */
static double distance(enum dtype dtype, const uint8_t *a, const uint8_t *b, struct number x, struct number y)
{
	if (dtype == DTYPE_I64 || dtype == DTYPE_U64) {
		uint64_t u, v;
		memcpy(&u, a, sizeof(u));
		memcpy(&v, b, sizeof(v));
		bool less = dtype == DTYPE_I64 ? (int64_t)u < (int64_t)v : u < v;
		return (double)(less ? v - u : u - v);
	}
	double d = x.im || y.im ? hypot(x.re - y.re, x.im - y.im) : fabs(x.re - y.re);
	return isinf(d) ? DBL_MAX : d;
}

static double modulus(struct number x)
{
	return x.im ? hypot(x.re, x.im) : x.re;
}

static void raise_to(struct extreme *e, double value, double a, double b, uint64_t at)
{
	if (!e->known || value > e->value)
		*e = (struct extreme){true, value, a, b, at};
}

static void add_element(enum dtype dtype, const uint8_t *a, const uint8_t *b, uint64_t at, struct difference *d)
{
	struct number x = decode(dtype, a), y = decode(dtype, b);
	bool nan_a = isnan(x.re) || isnan(x.im), nan_b = isnan(y.re) || isnan(y.im);
	bool inf_a = !nan_a && (isinf(x.re) || isinf(x.im)), inf_b = !nan_b && (isinf(y.re) || isinf(y.im));
	if (!d->elements++)
		d->first = at;
	d->nan_a += nan_a;
	d->nan_b += nan_b;
	d->inf_a += inf_a;
	d->inf_b += inf_b;
	if ((nan_b || inf_b) && !d->odd) {
		d->odd = true;
		d->odd_at = at;
	}
	if (nan_a || nan_b || inf_a || inf_b)
		return;
	double apart = distance(dtype, a, b, x, y), u = modulus(x), v = modulus(y), size = fmax(fabs(u), fabs(v));
	raise_to(&d->abs, apart, u, v, at);
	/* A difference beyond all doubles was cut. */
	double ratio = apart < DBL_MAX ? apart / size : fabs(u / size - v / size);
	raise_to(&d->rel, size > 0 ? fmin(ratio, 2) : 0, u, v, at);
}

void difference_of(enum dtype dtype, const void *a, const void *b, uint64_t n, struct difference *d)
{
	enum { BLOCK = 64 };
	const uint8_t *p = a, *q = b;
	unsigned size = dtype_size(dtype);
	*d = (struct difference){0};
	for (uint64_t i = 0, end; i < n; i = end) {
		end = min_u64(i + BLOCK, n);
		if (!memcmp(p + i * size, q + i * size, (end - i) * size))
			continue;
		for (uint64_t k = i; k < end; k++)
			if (memcmp(p + k * size, q + k * size, size) != 0)
				add_element(dtype, p + k * size, q + k * size, k, d);
	}
}

static void add_extreme(struct extreme *total, const struct extreme *part, uint64_t at)
{
	if (part->known &&
	    (!total->known || part->value > total->value || (part->value >= total->value && at < total->at))) {
		*total = *part;
		total->at = at;
	}
}

void difference_add(struct difference *total, const struct difference *part,
		    uint64_t (*place)(const void *arg, uint64_t at), const void *arg)
{
	if (!part->elements)
		return;
	uint64_t first = place(arg, part->first);
	total->first = total->elements ? min_u64(total->first, first) : first;
	total->elements += part->elements;
	if (part->abs.known)
		add_extreme(&total->abs, &part->abs, place(arg, part->abs.at));
	if (part->rel.known)
		add_extreme(&total->rel, &part->rel, place(arg, part->rel.at));
	total->nan_a += part->nan_a;
	total->nan_b += part->nan_b;
	total->inf_a += part->inf_a;
	total->inf_b += part->inf_b;
	if (part->odd) {
		uint64_t at = place(arg, part->odd_at);
		total->odd_at = total->odd ? min_u64(total->odd_at, at) : at;
		total->odd = true;
	}
}
