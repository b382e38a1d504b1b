/* Arithmetic of CUDA that C++ has no name for. */
#ifndef CKPT_TESTS_CUDA_EMULATED_MATH_H
#define CKPT_TESTS_CUDA_EMULATED_MATH_H

static inline unsigned __umulhi(unsigned a, unsigned b)
{
	return (unsigned)((uint64_t)a * b >> 32);
}

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
	return (unsigned long long)((unsigned __int128)a * b >> 64);
}

static inline int __popc(unsigned v)
{
	return __builtin_popcount(v);
}

static inline int __popcll(unsigned long long v)
{
	return __builtin_popcountll(v);
}

static inline int __clz(int v)
{
	return v ? __builtin_clz((unsigned)v) : 32;
}

static inline int __clzll(long long v)
{
	return v ? __builtin_clzll((unsigned long long)v) : 64;
}

static inline int __ffs(int v)
{
	return __builtin_ffs(v);
}

/* The low word of high:low moved right by n, at most 31 (__funnelshift_r takes n modulo 32). */
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n)
{
	return (unsigned)(((uint64_t)high << 32 | low) >> (n & 31));
}

/* Four bytes out of the eight of high:low, one for each nibble of the selector. */
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector)
{
	uint64_t both = (uint64_t)high << 32 | low;
	unsigned v = 0;
	for (unsigned i = 0; i < 4; i++) {
		unsigned s = selector >> 4 * i & 15, byte = (unsigned)(both >> 8 * (s & 7)) & 255;
		v |= (s & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
	}
	return v;
}

template <typename To, typename From> static inline To emulated_bits(From from)
{
	static_assert(sizeof(To) == sizeof(From), "the same bits");
	To to;
	memcpy(&to, &from, sizeof(to));
	return to;
}

static inline unsigned __float_as_uint(float v)
{
	return emulated_bits<unsigned>(v);
}

static inline int __float_as_int(float v)
{
	return emulated_bits<int>(v);
}

static inline float __uint_as_float(unsigned v)
{
	return emulated_bits<float>(v);
}

static inline float __int_as_float(int v)
{
	return emulated_bits<float>(v);
}

/* The quick forms are as exact here as the others: tests of them need a tolerance. Macros, since glibc has functions of these names. */
#define __expf(v) expf(v)
#define __logf(v) logf(v)
#define __sinf(v) sinf(v)
#define __cosf(v) cosf(v)
#define __powf(a, b) powf(a, b)

static inline float __fdividef(float a, float b)
{
	return a / b;
}

static inline float rsqrtf(float v)
{
	return 1.0f / sqrtf(v);
}

template <typename T> static inline T min(T a, T b)
{
	return b < a ? b : a;
}

template <typename T> static inline T max(T a, T b)
{
	return a < b ? b : a;
}

/* Loads and stores with hints for the caches. */
template <typename T> static inline T __ldg(const T *at)
{
	return *at;
}

template <typename T> static inline T __ldcs(const T *at)
{
	return *at;
}

template <typename T> static inline T __ldcg(const T *at)
{
	return *at;
}

template <typename T> static inline void __stcs(T *at, T value)
{
	*at = value;
}

template <typename T> static inline void __stcg(T *at, T value)
{
	*at = value;
}

#endif
