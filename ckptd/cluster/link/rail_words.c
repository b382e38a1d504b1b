#include "cluster/link/rail_words.h"

#include "base/bytes.h"

#include <errno.h>
#include <openssl/crypto.h>

enum { WHAT = RAIL_WORDS - LINK_TOKEN };

static bool make_token(const struct link *session, uint32_t speaker, uint64_t call, uint8_t token[LINK_TOKEN])
{
	uint8_t what[WHAT];
	struct wbuf w = wbuf_over(what, sizeof(what));
	wbuf_u32(&w, speaker);
	wbuf_u64(&w, call);
	return link_token(session, "EXPORTER-ckpt-rail", what, sizeof(what), token);
}

bool rail_words_say(const struct link *session, uint32_t speaker, uint64_t call, uint8_t out[RAIL_WORDS])
{
	struct wbuf w = wbuf_over(out, RAIL_WORDS);
	wbuf_u32(&w, speaker);
	wbuf_u64(&w, call);
	return make_token(session, speaker, call, out + WHAT);
}

int rail_words_decode(const void *words, size_t len, struct rail_words *out)
{
	struct rbuf r = rbuf_of(words, len);
	*out = (struct rail_words){.speaker = rbuf_u32(&r)};
	out->call = rbuf_u64(&r);
	rbuf_get(&r, out->token, sizeof(out->token));
	return r.failed ? -EBADMSG : 0; /* a provider may fill what follows with zeroes */
}

bool rail_words_proved(const struct link *session, const struct rail_words *words)
{
	uint8_t token[LINK_TOKEN];
	bool same = make_token(session, words->speaker, words->call, token) &&
		    !CRYPTO_memcmp(token, words->token, sizeof(token));
	OPENSSL_cleanse(token, sizeof(token));
	return same;
}
