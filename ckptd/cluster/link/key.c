#include "cluster/link/key.h"

#include "base/cleanup.h"
#include "base/secret_file.h"

#include <ctype.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>

enum { KEY_FILE_MAX = 256, KEY_BASE64 = 44 };

#define HOW_TO "make one with: (umask 077; head -c 32 /dev/urandom | base64 > FILE)"

/* One word, with a NUL. */
static bool decode(const char *word, uint8_t key[KEY_BYTES])
{
	static const uint8_t none[KEY_BYTES];
	uint8_t raw[KEY_BASE64];
	size_t len = strlen(word), n = 0;
	bool ok = len == 2 * KEY_BYTES && OPENSSL_hexstr2buf_ex(raw, sizeof(raw), &n, word, '\0') && n == KEY_BYTES;
	if (len == KEY_BASE64 && word[len - 1] == '=' && word[len - 2] != '=')
		ok = EVP_DecodeBlock(raw, (const unsigned char *)word, KEY_BASE64) == KEY_BYTES + 1;
	ok = ok && CRYPTO_memcmp(raw, none, KEY_BYTES) != 0;
	if (ok)
		memcpy(key, raw, KEY_BYTES);
	OPENSSL_cleanse(raw, sizeof(raw));
	return ok;
}

static bool decode_all(char *text, struct key_ring *ring)
{
	static const char blank[] = " \t\r\n\v\f";
	char *rest;
	for (char *word = strtok_r(text, blank, &rest); word; word = strtok_r(NULL, blank, &rest))
		if (ring->n == KEYS_FILE || !decode(word, ring->keys[ring->n++]))
			return false;
	return ring->n;
}

int key_parse(const char *text, size_t len, struct key_ring *ring, struct err *err)
{
	char copy[KEY_FILE_MAX + 1] = {0};
	*ring = (struct key_ring){.n = 0};
	bool ok = len < sizeof(copy) && !memchr(text, 0, len);
	if (ok)
		memcpy(copy, text, len);
	ok = ok && decode_all(copy, ring);
	OPENSSL_cleanse(copy, sizeof(copy));
	if (ok)
		return 0;
	key_wipe(ring);
	return err_set(err, -EINVAL,
		       "it is not %d random bytes in hexadecimal or base64, nor two lines of that; " HOW_TO, KEY_BYTES);
}

int key_read(const char *path, struct key_ring *ring, struct err *err)
{
	char text[KEY_FILE_MAX];
	ssize_t n = 0;
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc = fd < 0 ? err_set(err, -errno, "%s; " HOW_TO, err_name(errno)) : secret_file_check(fd, err);
	if (!rc && (n = read(fd, text, sizeof(text))) < 0)
		rc = err_set(err, -errno, "%s", err_name(errno));
	if (!rc)
		rc = key_parse(text, (size_t)n, ring, err);
	OPENSSL_cleanse(text, sizeof(text));
	return rc ? err_prefix(err, rc, "cluster key %s", path) : 0;
}

void key_add(struct key_ring *ring, const struct key_ring *more)
{
	for (unsigned i = 0; i < more->n && ring->n < KEYS_MAX; i++)
		memcpy(ring->keys[ring->n++], more->keys[i], KEY_BYTES);
}

void key_wipe(struct key_ring *ring)
{
	OPENSSL_cleanse(ring, sizeof(*ring));
}
