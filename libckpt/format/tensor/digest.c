#include "format/tensor/digest.h"

#include "base/bytes.h"
#include "format/tensor/digest_path.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <xxhash.h>

static bool always(void)
{
	return true;
}

static uint64_t leaf_library(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

#if DIGEST_X86
static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f");
}
#endif

static const struct digest_path paths[] = {
#if DIGEST_X86
	{"avx512", has_avx512, digest_leaf_avx512},
	{"avx2", has_avx2, digest_leaf_avx2},
#endif
	{"library", always, leaf_library},
};

const struct digest_path *digest_paths(size_t *count)
{
	*count = sizeof(paths) / sizeof(paths[0]);
	return paths;
}

/* Asked anew at every call: a load and a test per path, against 64 KiB of work, and no state to initialise. */
static const struct digest_path *best_path(void)
{
	const struct digest_path *path = paths;
	while (!path->usable())
		path++;
	return path;
}

uint64_t digest_leaf(const void *data, size_t len)
{
	assert(len <= LEAF_SIZE);
	return best_path()->leaf(data, len);
}

void digest_leaves(const void *data, uint64_t bytes, uint64_t *leaves)
{
	const struct digest_path *path = best_path();
	const unsigned char *at = data;
	for (uint64_t done = 0; done < bytes; done += LEAF_SIZE)
		*leaves++ = path->leaf(at + done, min_u64(bytes - done, LEAF_SIZE));
}

static struct digest from_xxh(XXH128_hash_t hash)
{
	return (struct digest){.low = hash.low64, .high = hash.high64};
}

#if __BYTE_ORDER != __LITTLE_ENDIAN
#error "digest_piece hashes the leaf digests in place: they must be little-endian in memory"
#endif

struct digest digest_piece(const uint64_t *leaves, uint64_t count)
{
	return from_xxh(XXH3_128bits(leaves, count * sizeof(*leaves)));
}

struct digest digest_bytes(const void *data, size_t len)
{
	return from_xxh(XXH3_128bits(data, len));
}

bool digest_equal(struct digest a, struct digest b)
{
	return a.low == b.low && a.high == b.high;
}

static void put_hex(uint64_t v, char *text)
{
	for (int i = 0; i < 16; i++)
		text[i] = "0123456789abcdef"[v >> (60 - 4 * i) & 15];
}

void digest_text(struct digest d, char text[DIGEST_TEXT])
{
	put_hex(d.high, text);
	put_hex(d.low, text + 16);
	text[DIGEST_TEXT - 1] = 0;
}

static int get_hex(const char *text, uint64_t *v)
{
	*v = 0;
	for (int i = 0; i < 16; i++) {
		char c = text[i];
		if (c >= '0' && c <= '9')
			*v = *v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			*v = *v << 4 | (uint64_t)(c - 'a' + 10);
		else
			return -EINVAL; /* also the NUL of a short text */
	}
	return 0;
}

int digest_parse(const char *text, struct digest *d)
{
	struct digest parsed;
	int rc = get_hex(text, &parsed.high);
	if (rc == 0)
		rc = get_hex(text + 16, &parsed.low);
	if (rc == 0 && text[32])
		rc = -EINVAL;
	if (rc == 0)
		*d = parsed;
	return rc;
}
