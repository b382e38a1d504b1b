/* XXH3 with seed 0 and its default secret, by the xxHash specification. Short inputs (at most 240 bytes) by one thread from memory near
 * it; long ones by a warp:
 *
 * a block of 1024 bytes is 16 stripes of eight words, which add to eight sums. Within a block these are plain additions, so all
 * stripes are taken at a time: lane l has words 2q and 2q + 1 (q = l % 4) of stripes l / 4 and 8 + l / 4, two reads of 512
 * consecutive bytes for the warp, and keys that stay in its registers. Three shuffles add up the eight lanes with the same q. Only what
 * follows a block (the scramble) must wait for the block before. */
#ifndef CKPT_KERNELS_GPU_XXH3_CUH
#define CKPT_KERNELS_GPU_XXH3_CUH

#include "gpu_walk.cuh"

enum {
	XXH_SHORT = 240,
	XXH_BLOCK = 1024,
	XXH_STRIPE = 64,
	XXH_AHEAD = 4 /* blocks that are read before they are used */
};

static const uint64_t P32_1 = 0x9e3779b1u, P32_2 = 0x85ebca77u, P32_3 = 0xc2b2ae3du;
static const uint64_t P64_1 = 0x9e3779b185ebca87u, P64_2 = 0xc2b2ae3d27d4eb4fu, P64_3 = 0x165667b19e3779f9u,
		      P64_4 = 0x85ebca77c2b2ae63u, P64_5 = 0x27d4eb2f165667c5u;

static __constant__ const uint64_t xxh_secret[24] = {
	0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072, 0x78e5c0cc4ee679cb,
	0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0, 0xcb00c391bb52283c, 0xa32e531b8b65d088,
	0x4ef90da297486471, 0xd8acdea946ef1938, 0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a,
	0x647378d9c97e9fc8, 0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
	0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
};

/* Eight bytes of the secret from any of its bytes on. */
static __device__ __forceinline__ uint64_t secret_at(unsigned byte)
{
	unsigned word = byte / 8, beside = byte % 8 * 8;
	return beside ? xxh_secret[word] >> beside | xxh_secret[word + 1] << (64 - beside) : xxh_secret[word];
}

static __device__ __forceinline__ uint64_t fold(uint64_t a, uint64_t b)
{
	return a * b ^ __umul64hi(a, b);
}

static __device__ __forceinline__ uint64_t avalanche(uint64_t h)
{
	h = (h ^ h >> 37) * 0x165667919e3779f9u;
	return h ^ h >> 32;
}

static __device__ __forceinline__ uint64_t avalanche_xxh64(uint64_t h)
{
	h = (h ^ h >> 33) * P64_2;
	h = (h ^ h >> 29) * P64_3;
	return h ^ h >> 32;
}

static __device__ __forceinline__ uint64_t rotate(uint64_t v, unsigned by)
{
	return v << by | v >> (64 - by);
}

static __device__ __forceinline__ uint64_t swap(uint64_t v)
{
	uint64_t low = __byte_perm(static_cast<uint32_t>(v), 0, 0x0123);
	return low << 32 | __byte_perm(static_cast<uint32_t>(v >> 32), 0, 0x0123);
}

/* ---- short inputs ---- */

static __device__ __forceinline__ uint64_t read_bytes(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < n; i++)
		v |= static_cast<uint64_t>(p[i]) << 8 * i;
	return v;
}

static __device__ __forceinline__ uint64_t mix16(const uint8_t *p, unsigned secret)
{
	return fold(read_bytes(p, 8) ^ secret_at(secret), read_bytes(p + 8, 8) ^ secret_at(secret + 8));
}

static __device__ uint64_t xxh3_to16(const uint8_t *p, unsigned n)
{
	if (n > 8) {
		uint64_t low = read_bytes(p, 8) ^ xxh_secret[3] ^ xxh_secret[4];
		uint64_t high = read_bytes(p + n - 8, 8) ^ xxh_secret[5] ^ xxh_secret[6];
		return avalanche(n + swap(low) + high + fold(low, high));
	}
	if (n >= 4) {
		uint64_t h = (read_bytes(p, 4) << 32) + read_bytes(p + n - 4, 4);
		h ^= xxh_secret[1] ^ xxh_secret[2];
		h ^= rotate(h, 49) ^ rotate(h, 24);
		h *= 0x9fb21c651e98df25u;
		h = (h ^ ((h >> 35) + n)) * 0x9fb21c651e98df25u;
		return h ^ h >> 28;
	}
	if (!n)
		return avalanche_xxh64(xxh_secret[7] ^ xxh_secret[8]);
	uint32_t all = p[n - 1] | n << 8 | static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[n >> 1]) << 24;
	uint64_t flip = static_cast<uint32_t>(xxh_secret[0]) ^ static_cast<uint32_t>(xxh_secret[0] >> 32);
	return avalanche_xxh64(all ^ flip);
}

/* XXH3-64 of n bytes, at most XXH_SHORT. */
static __device__ __attribute__((noinline)) uint64_t xxh3_short(const uint8_t *p, unsigned n)
{
	enum { MID_FROM = 3, MID_LAST = 136 - 17 };
	if (n <= 16)
		return xxh3_to16(p, n);
	uint64_t h = n * P64_1;
	if (n <= 128) {
		for (unsigned i = (n - 1) / 32 + 1; i-- > 0;)
			h += mix16(p + 16 * i, 32 * i) + mix16(p + n - 16 * (i + 1), 32 * i + 16);
		return avalanche(h);
	}
	for (unsigned i = 0; i < 8; i++)
		h += mix16(p + 16 * i, 16 * i);
	h = avalanche(h);
	for (unsigned i = 8; i < n / 16; i++)
		h += mix16(p + 16 * i, 16 * (i - 8) + MID_FROM);
	return avalanche(h + mix16(p + n - 16, MID_LAST));
}

/* ---- 128 bits of short inputs that are whole words, as leaf digests are ---- */

struct digest128 {
	uint64_t low, high;
};

static __device__ __forceinline__ uint64_t mix_words(const uint64_t *w, unsigned secret)
{
	return fold(w[0] ^ secret_at(secret), w[1] ^ secret_at(secret + 8));
}

static __device__ __forceinline__ void mix32(digest128 *h, const uint64_t *a, const uint64_t *b, unsigned secret)
{
	h->low = (h->low + mix_words(a, secret)) ^ (b[0] + b[1]);
	h->high = (h->high + mix_words(b, secret + 16)) ^ (a[0] + a[1]);
}

static __device__ digest128 xxh128_to_two_words(const uint64_t *w, unsigned words)
{
	if (!words)
		return {avalanche_xxh64(xxh_secret[8] ^ xxh_secret[9]),
			avalanche_xxh64(xxh_secret[10] ^ xxh_secret[11])};
	if (words == 1) {
		uint64_t keyed = w[0] ^ xxh_secret[2] ^ xxh_secret[3], by = P64_1 + (8 << 2);
		uint64_t low = keyed * by, high = __umul64hi(keyed, by) + (low << 1);
		low ^= high >> 3;
		low = (low ^ low >> 35) * 0x9fb21c651e98df25u;
		return {low ^ low >> 28, avalanche(high)};
	}
	uint64_t keyed = w[0] ^ w[1] ^ xxh_secret[4] ^ xxh_secret[5], last = w[1] ^ xxh_secret[6] ^ xxh_secret[7];
	uint64_t low = keyed * P64_1 + (15ull << 54), high = __umul64hi(keyed, P64_1);
	high += last + static_cast<uint32_t>(last) * (P32_2 - 1);
	low ^= swap(high);
	return {avalanche(low * P64_2), avalanche(__umul64hi(low, P64_2) + high * P64_2)};
}

/* XXH3-128 of at most XXH_SHORT / 8 words. */
static __device__ digest128 xxh128_short(const uint64_t *w, unsigned words)
{
	enum { MID_FROM = 3, MID_LAST = 136 - 17 - 16 };
	if (words <= 2)
		return xxh128_to_two_words(w, words);
	uint64_t bytes = 8 * words;
	digest128 h = {bytes * P64_1, 0};
	if (bytes <= 128) {
		for (unsigned i = (words - 1) / 4 + 1; i-- > 0;)
			mix32(&h, w + 2 * i, w + words - 2 * (i + 1), 32 * i);
	} else {
		for (unsigned i = 0; i < 4; i++)
			mix32(&h, w + 4 * i, w + 4 * i + 2, 32 * i);
		h = {avalanche(h.low), avalanche(h.high)};
		for (unsigned i = 4; i < bytes / 32; i++)
			mix32(&h, w + 4 * i, w + 4 * i + 2, MID_FROM + 32 * (i - 4));
		mix32(&h, w + words - 2, w + words - 4, MID_LAST);
	}
	return {avalanche(h.low + h.high), 0 - avalanche(h.low * P64_1 + h.high * P64_4 + bytes * P64_2)};
}

/* ---- long inputs: a warp ---- */

/* Of a lane: two of the eight sums. */
struct sums {
	uint64_t even, odd;
};

struct keys {
	uint64_t even[2], odd[2]; /* for its stripe in each half of a block */
};

static __device__ __forceinline__ sums sums_at_first(unsigned q)
{
	switch (q) {
	case 0:
		return {P32_3, P64_1};
	case 1:
		return {P64_2, P64_3};
	case 2:
		return {P64_4, P32_2};
	default:
		return {P64_5, P32_1};
	}
}

static __device__ __forceinline__ keys keys_of(unsigned lane)
{
	unsigned word = lane / 4 + 2 * (lane % 4);
	return {{xxh_secret[word], xxh_secret[word + 8]}, {xxh_secret[word + 1], xxh_secret[word + 9]}};
}

static __device__ __forceinline__ uint64_t product(uint64_t v)
{
	return static_cast<uint64_t>(static_cast<uint32_t>(v)) * static_cast<uint32_t>(v >> 32);
}

static __device__ __forceinline__ void add_unit(sums *s, const unit &v, uint64_t even, uint64_t odd)
{
	s->even += v.high + product(v.low ^ even);
	s->odd += v.low + product(v.high ^ odd);
}

static __device__ __forceinline__ sums add_lanes(sums s)
{
#pragma unroll
	for (int with = 4; with < 32; with *= 2) {
		s.even += __shfl_xor_sync(0xffffffffu, s.even, with);
		s.odd += __shfl_xor_sync(0xffffffffu, s.odd, with);
	}
	return s;
}

static __device__ __forceinline__ uint64_t scramble(uint64_t sum, uint64_t key)
{
	return (sum ^ sum >> 47 ^ key) * P32_1;
}

/* What one warp goes through a long input with. */
struct xxh3_warp {
	unsigned lane;
	keys k;
	uint64_t end_even, end_odd; /* keys of the scramble */
	sums total;

	__device__ __forceinline__ explicit xxh3_warp(unsigned l)
	    : lane(l), k(keys_of(l)), end_even(xxh_secret[16 + 2 * (l % 4)]), end_odd(xxh_secret[17 + 2 * (l % 4)]),
	      total(sums_at_first(l % 4))
	{
	}

	__device__ __forceinline__ void add_block(const unit &first, const unit &second)
	{
		sums s = {0, 0};
		add_unit(&s, first, k.even[0], k.odd[0]);
		add_unit(&s, second, k.even[1], k.odd[1]);
		s = add_lanes(s);
		total.even = scramble(total.even + s.even, end_even);
		total.odd = scramble(total.odd + s.odd, end_odd);
	}

	template <typename Source>
	__device__ __forceinline__ void add_blocks(const Source &source, uint32_t first, uint32_t n)
	{
		unit held[2 * XXH_AHEAD];
		for (uint32_t at = first * XXH_BLOCK + UNIT * lane; n >= XXH_AHEAD; n -= XXH_AHEAD) {
#pragma unroll
			for (int i = 0; i < 2 * XXH_AHEAD; i++, at += XXH_BLOCK / 2)
				held[i] = source.at(at);
#pragma unroll
			for (int i = 0; i < 2 * XXH_AHEAD; i += 2)
				add_block(held[i], held[i + 1]);
			first += XXH_AHEAD;
		}
		for (uint32_t at = first * XXH_BLOCK + UNIT * lane; n; n--, at += XXH_BLOCK) {
			unit low = source.at(at), high = source.at(at + XXH_BLOCK / 2);
			add_block(low, high);
		}
	}

	/* The stripes that do not fill a block, and the last 64 bytes once more with keys of their own. */
	template <typename Source>
	__device__ __forceinline__ void add_rest(const Source &source, uint32_t from, uint32_t bytes)
	{
		enum { LAST_KEY = 192 - 64 - 7 };
		uint32_t stripes = (bytes - 1 - from) / XXH_STRIPE;
		sums s = {0, 0};
		if (lane / 4 < stripes)
			add_unit(&s, source.at(from + UNIT * lane), k.even[0], k.odd[0]);
		if (lane / 4 + 8 < stripes)
			add_unit(&s, source.at(from + XXH_BLOCK / 2 + UNIT * lane), k.even[1], k.odd[1]);
		if (lane < 4) {
			unsigned key = LAST_KEY + UNIT * lane;
			add_unit(&s, source.any(bytes - XXH_STRIPE + UNIT * lane), secret_at(key), secret_at(key + 8));
		}
		s = add_lanes(s);
		total.even += s.even;
		total.odd += s.odd;
	}

	/* The eight sums as one word; `secret` is where its keys begin. */
	__device__ __forceinline__ uint64_t merged(uint64_t start, unsigned secret) const
	{
		unsigned key = secret + UNIT * (lane % 4);
		uint64_t h = fold(total.even ^ secret_at(key), total.odd ^ secret_at(key + 8));
		h += __shfl_xor_sync(0xffffffffu, h, 1);
		h += __shfl_xor_sync(0xffffffffu, h, 2);
		return avalanche(start + h);
	}

	/* All of it, of more than XXH_SHORT bytes; then merged gives the digest. */
	template <typename Source> __device__ __forceinline__ void run(const Source &source, uint32_t bytes)
	{
		uint32_t blocks = (bytes - 1) / XXH_BLOCK;
		add_blocks(source, 0, blocks);
		add_rest(source, blocks * XXH_BLOCK, bytes);
	}
};

enum { XXH_MERGE_64 = 11, XXH_MERGE_128_HIGH = 192 - 64 - 11 };

#endif
