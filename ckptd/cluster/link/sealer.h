/* Sealer: one direction of a lane (lane.h) in records of AES-256-GCM. Pure.
 *
 *	record    u32 bytes, 1 .. SEALER_BYTES; so many, sealed; tag
 *
 * The length is associated data. The nonce is the number of the record under its key, combined with bytes of the key's
 * own, as TLS 1.3 does it (RFC 8446, 5.3). So none comes twice, and a record that was changed, left out, said twice or
 * swapped does not open. */
#ifndef CKPTD_LINK_SEALER_H
#define CKPTD_LINK_SEALER_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SEALER_BYTES = 64 << 10,
	SEALER_HEAD = 4,
	SEALER_TAG = 16,
	SEALER_MORE = SEALER_HEAD + SEALER_TAG, /* of a record, beyond its bytes */
	SEALER_RECORD = SEALER_BYTES + SEALER_MORE,
	SEALER_IV = 12,
	SEALER_SECRET = 32 + SEALER_IV,
	/* With one key, 64 GiB: AES-GCM is good for 388 GB (2^24.5 records of 16 KiB: RFC 8446, 5.5). */
	SEALER_RECORDS = 1 << 20,
};

struct sealer {
	EVP_CIPHER_CTX *ctx; /* NULL: it has no key yet */
	uint8_t iv[SEALER_IV];
	uint64_t records; /* with this key */
	bool opens;
};

/* A new key, which nothing was sealed with before. false: no memory. */
bool sealer_key(struct sealer *s, bool opens, const uint8_t secret[SEALER_SECRET]);
void sealer_end(struct sealer *s);
/* Whether it needs a new key before the next record. */
bool sealer_is_worn(const struct sealer *s);

/* A record of len + SEALER_MORE bytes. false: no memory; the sealer is of no use any more. */
bool sealer_seal(struct sealer *s, const void *bytes, size_t len, uint8_t *record);
/* Bytes in the record that begins so. -EPROTO. */
int sealer_length(const uint8_t head[SEALER_HEAD]);
/* Opens the whole record in its place, behind its head. false: it is not the next one that was sealed; what stands there
 * then is nothing. */
bool sealer_open(struct sealer *s, uint8_t *record, size_t len);

#endif
