#include "cluster/link/sealer.h"

#include "base/bytes.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

bool sealer_key(struct sealer *s, bool opens, const uint8_t secret[SEALER_SECRET])
{
	if (!s->ctx)
		s->ctx = EVP_CIPHER_CTX_new();
	memcpy(s->iv, secret + SEALER_SECRET - SEALER_IV, SEALER_IV);
	s->records = 0;
	s->opens = opens;
	return s->ctx && EVP_CipherInit_ex(s->ctx, EVP_aes_256_gcm(), NULL, secret, NULL, !opens) == 1;
}

void sealer_end(struct sealer *s)
{
	EVP_CIPHER_CTX_free(s->ctx);
	OPENSSL_cleanse(s, sizeof(*s));
}

bool sealer_is_worn(const struct sealer *s)
{
	return !s->ctx || s->records >= SEALER_RECORDS;
}

/* With the nonce of the next record, and what is said in clear. */
static bool begin(struct sealer *s, const uint8_t head[SEALER_HEAD])
{
	uint8_t nonce[SEALER_IV];
	int n;
	memcpy(nonce, s->iv, sizeof(nonce));
	for (unsigned i = 0; i < 8; i++)
		nonce[SEALER_IV - 1 - i] ^= (uint8_t)(s->records >> (8 * i));
	if (sealer_is_worn(s))
		return false;
	s->records++;
	return EVP_CipherInit_ex(s->ctx, NULL, NULL, NULL, nonce, !s->opens) == 1 &&
	       EVP_CipherUpdate(s->ctx, NULL, &n, head, SEALER_HEAD) == 1;
}

bool sealer_seal(struct sealer *s, const void *bytes, size_t len, uint8_t *record)
{
	struct wbuf head = wbuf_over(record, SEALER_HEAD);
	uint8_t *to = record + SEALER_HEAD;
	int n, last;
	wbuf_u32(&head, (uint32_t)len);
	return begin(s, record) && EVP_EncryptUpdate(s->ctx, to, &n, bytes, (int)len) == 1 &&
	       EVP_EncryptFinal_ex(s->ctx, to + n, &last) == 1 && (size_t)n + (size_t)last == len &&
	       EVP_CIPHER_CTX_ctrl(s->ctx, EVP_CTRL_AEAD_GET_TAG, SEALER_TAG, to + len) == 1;
}

int sealer_length(const uint8_t head[SEALER_HEAD])
{
	struct rbuf r = rbuf_of(head, SEALER_HEAD);
	uint32_t len = rbuf_u32(&r);
	return len && len <= SEALER_BYTES ? (int)len : -EPROTO;
}

bool sealer_open(struct sealer *s, uint8_t *record, size_t len)
{
	uint8_t *at = record + SEALER_HEAD;
	int n, last;
	bool ok = begin(s, record) && EVP_DecryptUpdate(s->ctx, at, &n, at, (int)len) == 1 &&
		  EVP_CIPHER_CTX_ctrl(s->ctx, EVP_CTRL_AEAD_SET_TAG, SEALER_TAG, at + len) == 1 &&
		  EVP_DecryptFinal_ex(s->ctx, at + n, &last) == 1;
	if (!ok)
		OPENSSL_cleanse(at, len);
	return ok;
}
