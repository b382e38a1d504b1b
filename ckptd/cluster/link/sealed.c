#include "cluster/link/sealed.h"

#include "base/bytes.h"
#include "cluster/link/vault.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/socket.h>

#define LABEL "EXPORTER-ckpt-lane-seal"

enum {
	SEND = 4 * SEALER_RECORD, /* so much makes a call into the kernel worth its time */
};

static bool renew_key(const struct sealed *s, struct sealed_way *w, bool opens)
{
	uint8_t secret[SEALER_SECRET], context[5];
	struct wbuf text = wbuf_over(context, sizeof(context));
	wbuf_u8(&text, w->from);
	wbuf_u32(&text, w->keys++);
	/* OpenSSL asks for a connection that it may change, and changes nothing. */
	bool ok = SSL_export_keying_material((SSL *)s->ssl, secret, sizeof(secret), LABEL, strlen(LABEL), context,
					     sizeof(context), 1) == 1 &&
		  sealer_key(&w->sealer, opens, secret);
	OPENSSL_cleanse(secret, sizeof(secret));
	return ok;
}

struct sealed *sealed_new(const SSL *ssl, int fd, bool caller)
{
	struct sealed *s = vault_pages(sizeof(*s));
	if (!s)
		return NULL;
	s->ssl = ssl;
	s->fd = fd;
	s->sent.from = !caller;
	s->heard.from = caller;
	if (renew_key(s, &s->sent, false) && renew_key(s, &s->heard, true))
		return s;
	sealed_free(s);
	return NULL;
}

void sealed_free(struct sealed *s)
{
	if (!s)
		return;
	sealer_end(&s->sent.sealer);
	sealer_end(&s->heard.sealer);
	vault_give_back(s, sizeof(*s));
}

static bool later(void)
{
	return errno == EAGAIN || errno == EINTR;
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

int sealed_push(struct sealed *s)
{
	while (s->out_at < s->out_end) {
		ssize_t n = send(s->fd, s->out + s->out_at, s->out_end - s->out_at, MSG_NOSIGNAL);
		if (n <= 0)
			return n < 0 && later() ? 0 : -ECONNRESET;
		s->out_at += (size_t)n;
	}
	s->out_at = s->out_end = 0;
	return 1;
}

/* In the buffer, as it stands or after it was sent. */
static int make_room(struct sealed *s, size_t len)
{
	int rc = len <= sizeof(s->out) - s->out_end ? 1 : sealed_push(s);
	return rc < 0 ? rc : len <= sizeof(s->out) - s->out_end;
}

int sealed_room(struct sealed *s, size_t len)
{
	return make_room(s, len + (len / SEALER_BYTES + 2) * SEALER_MORE);
}

int sealed_put(struct sealed *s, const void *bytes, size_t len)
{
	size_t n = min_u64(len, SEALER_BYTES);
	int rc = make_room(s, n + SEALER_MORE);
	if (rc <= 0)
		return rc;
	if ((sealer_is_worn(&s->sent.sealer) && !renew_key(s, &s->sent, false)) ||
	    !sealer_seal(&s->sent.sealer, bytes, n, s->out + s->out_end))
		return -ECONNRESET;
	s->out_end += n + SEALER_MORE;
	rc = s->out_end - s->out_at < SEND ? 1 : sealed_push(s);
	return rc < 0 ? rc : (int)n;
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

/* 1: something came. */
static int receive(struct sealed *s)
{
	memmove(s->in, s->in + s->in_at, s->in_end - s->in_at);
	s->in_end -= s->in_at;
	s->in_at = 0;
	ssize_t n = recv(s->fd, s->in + s->in_end, sizeof(s->in) - s->in_end, 0);
	if (n <= 0)
		return n < 0 && later() ? 0 : -ECONNRESET;
	s->in_end += (size_t)n;
	return 1;
}

/* Whether the next record has come whole; -EPROTO. */
static int is_whole(const struct sealed *s)
{
	size_t have = s->in_end - s->in_at;
	int len = have < SEALER_HEAD ? 0 : sealer_length(s->in + s->in_at);
	return len < 0 ? len : len && have >= (size_t)len + SEALER_MORE;
}

static int open_next(struct sealed *s)
{
	uint8_t *record = s->in + s->in_at;
	size_t len = (size_t)sealer_length(record);
	if ((sealer_is_worn(&s->heard.sealer) && !renew_key(s, &s->heard, true)) ||
	    !sealer_open(&s->heard.sealer, record, len))
		return -EPROTO;
	s->open_at = s->in_at + SEALER_HEAD;
	s->open_end = s->open_at + len;
	s->in_at += len + SEALER_MORE;
	return 1;
}

int sealed_get(struct sealed *s, void *out, size_t len)
{
	int rc = 1;
	while (s->open_at == s->open_end && rc > 0) {
		rc = is_whole(s);
		if (rc >= 0)
			rc = rc ? open_next(s) : receive(s);
	}
	if (rc <= 0)
		return rc;
	size_t n = min_u64(len, s->open_end - s->open_at);
	memcpy(out, s->in + s->open_at, n);
	s->open_at += n;
	return (int)n;
}
