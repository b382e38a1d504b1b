#include "cluster/link/link.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/link/first_flight.h"
#include "cluster/link/sealed.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	/* AES-GCM is good for 2^24.5 records with one key (RFC 8446, 5.5). */
	RECORDS_PER_KEY = 1 << 22,
	UNSENT_MAX = 128 << 10, /* in the kernel, so that a beat does not wait behind much */
	HELD_MAX = 64,          /* bytes that do not make a segment of their own */
	IN_BYTES = FRAME_HEAD + FRAME_BODY_MAX,
	/* Messages of TLS's own once it is open: so many, and one more for so many reads. An honest end says one for RECORDS_PER_KEY records. */
	ASIDES_MAX = 4,
	READS_PER_ASIDE = 1 << 20,
};

static struct link *new_link(int fd, enum link_state state)
{
	struct link *l = calloc(1, sizeof(*l));
	int one = 1, unsent = UNSENT_MAX;
	if (!l) {
		close(fd);
		return NULL;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
	l->fd = fd;
	l->state = state;
	l->since = clock_now();
	list_init(&l->list);
	list_init(&l->waits);
	return l;
}

struct link *link_call(struct credentials *c, unsigned node, unsigned attempt, const union address *to)
{
	int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct link *l = fd < 0 ? NULL : new_link(fd, LINK_CONNECTING);
	if (!l)
		return NULL;
	l->caller = true;
	l->ssl = credentials_call(c, node, attempt);
	if (l->ssl && SSL_set_fd(l->ssl, fd) && (!connect(fd, &to->any, address_size(to)) || errno == EINPROGRESS))
		return l;
	link_free(l);
	return NULL;
}

struct link *link_accept(int fd, const union address *from)
{
	struct link *l = new_link(fd, LINK_STRANGER);
	if (!l)
		return NULL;
	l->from = *from;
	first_flight_await(fd);
	return l;
}

void link_close(struct link *l)
{
	if (l->state == LINK_OPEN && !l->bare && !l->sealed)
		(void)SSL_shutdown(l->ssl);
	sealed_free(l->sealed);
	l->sealed = NULL;
	SSL_free(l->ssl);
	ERR_clear_error();
	if (l->fd >= 0)
		close(l->fd);
	l->ssl = NULL;
	l->fd = -1;
	l->state = LINK_OVER;
}

void link_free(struct link *l)
{
	link_close(l);
	if (l->in)
		OPENSSL_cleanse(
			l->in, IN_BYTES + l->out_most); /* no more: the memory of a link that says little stays small */
	free(l->in);
	OPENSSL_cleanse(l, sizeof(*l));
	free(l);
}

static int over(struct link *l, int rc)
{
	l->why = ERR_reason_error_string(ERR_peek_last_error());
	ERR_clear_error();
	l->state = LINK_OVER;
	return rc;
}

/* ---- setting up -------------------------------------------------------------------------------------------------- */

static int connected(struct link *l)
{
	int rc = 0;
	socklen_t len = sizeof(rc);
	if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &rc, &len) < 0)
		rc = errno;
	if (rc)
		return over(l, -rc);
	l->state = LINK_SHAKING;
	return 0;
}

/* TLS's own messages, of which SSL_read() tells nothing. */
static void note_aside(int out, int version, int type, const void *bytes, size_t len, SSL *ssl, void *arg)
{
	struct link *l = arg;
	(void)version, (void)bytes, (void)len, (void)ssl;
	l->asides += !out && type == SSL3_RT_HANDSHAKE && l->state == LINK_OPEN;
}

/* Only now it costs more than a descriptor. */
static int meet(struct link *l, struct credentials *c)
{
	int rc = first_flight_come(l->fd);
	if (rc <= 0)
		return rc ? over(l, rc) : 0;
	l->ssl = credentials_answer(c);
	if (!l->ssl || !SSL_set_fd(l->ssl, l->fd))
		return over(l, -ENOMEM);
	l->state = LINK_SHAKING;
	return 0;
}

static int opened(struct link *l)
{
	l->in = malloc(IN_BYTES + LINK_OUT);
	if (!l->in)
		return over(l, -ENOMEM);
	l->out = l->in + IN_BYTES;
	l->state = LINK_OPEN;
	SSL_set_msg_callback(l->ssl, note_aside);
	SSL_set_msg_callback_arg(l->ssl, l);
	return 1;
}

static bool has_left(void)
{
	return ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

int link_shake(struct link *l, struct credentials *c)
{
	int rc = l->state == LINK_CONNECTING ? connected(l) : l->state == LINK_STRANGER ? meet(l, c) : 0;
	if (rc || l->state != LINK_SHAKING)
		return rc;
	ERR_clear_error();
	int done = SSL_do_handshake(l->ssl);
	int why = SSL_get_error(l->ssl, done);
	l->stuck = why == SSL_ERROR_WANT_WRITE;
	if (done == 1)
		return opened(l);
	l->met = why == SSL_ERROR_WANT_CLIENT_HELLO_CB;
	if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE && !l->met)
		return over(l, why == SSL_ERROR_SSL && !has_left() ? -EACCES : -ECONNRESET);
	return 0;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* The length of the frame that begins in `in`, as far as it is known. -EPROTO. */
static int expected(const struct link *l)
{
	struct rbuf r = rbuf_of(l->in, FRAME_HEAD);
	if (l->have < FRAME_HEAD)
		return FRAME_HEAD;
	uint16_t kind = rbuf_u16(&r), len = rbuf_u16(&r);
	return !kind || kind >= FRAME_KIND_END || len > FRAME_BODY_MAX ? -EPROTO : FRAME_HEAD + len;
}

static void take(struct link *l, struct frame *out)
{
	struct rbuf r = rbuf_of(l->in, FRAME_HEAD);
	out->kind = (enum frame_kind)rbuf_u16(&r);
	out->len = rbuf_u16(&r);
	memcpy(out->body, l->in + FRAME_HEAD, out->len);
	l->have = 0;
}

/* Whether a call of the kernel's that failed is to be made again. */
static bool later(void)
{
	return errno == EAGAIN || errno == EINTR;
}

static int get_bare(struct link *l, void *out, size_t len)
{
	ssize_t n = recv(l->fd, out, len, 0);
	if (n > 0 || (n < 0 && later()))
		return n > 0 ? (int)n : 0;
	return over(l, -ECONNRESET);
}

/* A result of sealed.h. */
static int unless_over(struct link *l, int rc)
{
	return rc < 0 ? over(l, rc) : rc;
}

static bool says_too_much(const struct link *l)
{
	return l->asides > ASIDES_MAX + l->reads / READS_PER_ASIDE;
}

/* An orderly end is no better than another: a peer says goodbye before it. */
int link_get(struct link *l, void *out, size_t len)
{
	if (l->bare)
		return get_bare(l, out, len);
	if (l->sealed)
		return unless_over(l, sealed_get(l->sealed, out, len));
	ERR_clear_error();
	int n = SSL_read(l->ssl, out, (int)len);
	int why = n > 0 ? SSL_ERROR_NONE : SSL_get_error(l->ssl, n);
	l->reads += n > 0;
	if (says_too_much(l))
		return over(l, -EPROTO);
	if (n > 0 || why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return n > 0 ? n : 0;
	return over(l, -ECONNRESET);
}

int link_read(struct link *l, struct frame *out)
{
	for (;;) {
		int want = expected(l);
		if (want < 0)
			return over(l, want);
		if (l->have == (size_t)want) { /* which is more than a head now, or a body of nothing */
			take(l, out);
			return 1;
		}
		int n = link_get(l, l->in + l->have, (size_t)want - l->have);
		if (n <= 0)
			return n;
		l->have += (size_t)n;
	}
}

bool link_is_dry(const struct link *l)
{
	return l->state == LINK_OPEN && !l->have && !SSL_has_pending(l->ssl);
}

void link_read_ahead(struct link *l)
{
	SSL_set_read_ahead(l->ssl, 1);
}

bool link_has_room(const struct link *l, size_t len)
{
	return l->state == LINK_OPEN && FRAME_HEAD + len <= LINK_OUT - l->out_len;
}

void link_write(struct link *l, enum frame_kind kind, const void *body, size_t len)
{
	uint16_t head[2] = {htole16((uint16_t)kind), htole16((uint16_t)len)};
	memcpy(l->out + l->out_len, head, sizeof(head));
	if (len)
		memcpy(l->out + l->out_len + FRAME_HEAD, body, len);
	l->out_len += FRAME_HEAD + len;
	l->out_most = max_u64(l->out_most, l->out_len);
}

static void renew_key(struct link *l)
{
	if (++l->records < RECORDS_PER_KEY)
		return;
	SSL_key_update(l->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
	l->records = 0;
}

static int put_bare(struct link *l, const void *bytes, size_t len)
{
	bool held = len <= HELD_MAX;
	ssize_t n = send(l->fd, bytes, len, MSG_NOSIGNAL | (held ? MSG_MORE : 0));
	if (n > 0) {
		l->held = held;
		return (int)n;
	}
	l->stuck = n < 0 && later();
	return l->stuck ? 0 : over(l, -ECONNRESET);
}

static int put_sealed(struct link *l, const void *bytes, size_t len)
{
	int n = unless_over(l, sealed_put(l->sealed, bytes, len));
	l->stuck |= !n;
	return n;
}

int link_put(struct link *l, const void *bytes, size_t len)
{
	if (l->bare)
		return put_bare(l, bytes, len);
	if (l->sealed)
		return put_sealed(l, bytes, len);
	ERR_clear_error();
	int n = SSL_write(l->ssl, bytes, (int)len);
	int why = n > 0 ? SSL_ERROR_NONE : SSL_get_error(l->ssl, n);
	if (n > 0) {
		renew_key(l);
		return n;
	}
	l->stuck = why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ;
	return l->stuck ? 0 : over(l, -ECONNRESET);
}

/* To say anew that nothing is held sends what is. */
static int push_bare(struct link *l)
{
	int one = 1;
	if (l->held)
		setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	l->held = false;
	return 0;
}

static int push_sealed(struct link *l)
{
	int rc = unless_over(l, sealed_push(l->sealed));
	l->stuck |= !rc;
	return rc < 0 ? rc : 0;
}

int link_push(struct link *l)
{
	if (l->state != LINK_OPEN)
		return -ECONNRESET;
	if (l->bare)
		return push_bare(l);
	if (l->sealed)
		return push_sealed(l);
	BIO *out = SSL_get_wbio(l->ssl);
	bool done = BIO_flush(out) > 0;
	l->stuck |= !done && BIO_should_retry(out);
	return done || l->stuck ? 0 : over(l, -ECONNRESET);
}

int link_flush(struct link *l)
{
	size_t sent = 0;
	int n = 0;
	l->stuck = false;
	while (l->state == LINK_OPEN && sent < l->out_len && (n = link_put(l, l->out + sent, l->out_len - sent)) > 0)
		sent += (size_t)n;
	if (n < 0)
		return n;
	memmove(l->out, l->out + sent, l->out_len - sent);
	l->out_len -= sent;
	return link_push(l);
}

static int at_least_one_second(uint64_t ns)
{
	return (int)max_u64(ns / CLOCK_NS_PER_S, 1);
}

void link_keep(const struct link *l, uint64_t limit_ns)
{
	int on = 1, limit_ms = (int)min_u64(limit_ns / CLOCK_NS_PER_MS, INT_MAX);
	int idle_s = at_least_one_second(limit_ns / 2), each_s = at_least_one_second(limit_ns / 8);
	setsockopt(l->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(l->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(l->fd, IPPROTO_TCP, TCP_KEEPINTVL, &each_s, sizeof(each_s));
	setsockopt(l->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
}

/* ---- bytes in bulk ----------------------------------------------------------------------------------------------- */

bool link_token(const struct link *l, const char *label, const void *context, size_t len, uint8_t token[LINK_TOKEN])
{
	return SSL_export_keying_material(l->ssl, token, LINK_TOKEN, label, strlen(label), context, len, 1) == 1;
}

/* Nothing is waiting behind what is sent. */
static void hold_much(const struct link *l)
{
	int unsent = -1;
	setsockopt(l->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
}

void link_bare(struct link *l)
{
	hold_much(l);
	l->bare = true;
}

bool link_seal(struct link *l)
{
	hold_much(l);
	l->sealed = sealed_new(l->ssl, l->fd, l->caller);
	return l->sealed;
}

int link_room(struct link *l, size_t len)
{
	int rc = l->sealed ? unless_over(l, sealed_room(l->sealed, len)) : 1;
	l->stuck |= !rc;
	return rc;
}

unsigned link_wants(const struct link *l)
{
	if (l->state == LINK_CONNECTING)
		return EPOLLOUT;
	if (!list_empty(&l->waits))
		return 0;
	return EPOLLIN | (l->stuck ? EPOLLOUT : 0);
}
