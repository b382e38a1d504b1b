/* Links over TCP of loopback: who is let in, and what is made of bytes that others send. */
#include "cluster/link/link.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct frame frame;
static uint8_t body[FRAME_BODY_MAX];

TestSuite(link, .init = pair_setup, .fini = pair_teardown);

/* What the caller thinks that it has reached may be known to it late: the first byte that it reads tells. */
static bool works(struct pair *p)
{
	uint64_t deadline = clock_deadline(10 * CLOCK_NS_PER_S);
	int rc = 0;
	if (p->call->state != LINK_OPEN || p->answer->state != LINK_OPEN)
		return false;
	link_write(p->answer, FRAME_BEAT, "12345678", 8);
	cr_assert_eq(link_flush(p->answer), 0);
	while (!(rc = link_read(p->call, &frame)) && clock_now() < deadline)
		settle(p->call, p->answer);
	return rc == 1;
}

/* ---- who is let in ----------------------------------------------------------------------------------------------- */

Test(link, both_ends_know_each_other)
{
	struct pair p = open_pair();
	cr_expect(works(&p));
	cr_expect(credentials_proved(p.call->ssl, B));
	cr_expect(credentials_proved(p.answer->ssl, A));
	cr_expect(!credentials_proved(p.call->ssl, C) && !credentials_proved(p.call->ssl, A));
	cr_expect(!credentials_proved(p.answer->ssl, B) && !credentials_proved(p.answer->ssl, C));
	cr_expect(!credentials_proved(p.answer->ssl, 3) && !credentials_proved(p.answer->ssl, ROSTER_NODES_MAX));
	end_pair(&p);
}

/* Nobody gets in: neither end, whatever the other believes. */
static void stay_out(struct credentials *caller, unsigned to, struct credentials *callee)
{
	int rc[2];
	struct pair p = connect_pair(caller, to, callee);
	shake_hands(&p, rc);
	cr_expect_lt(rc[1], 0);
	cr_expect(!works(&p));
	end_pair(&p);
}

Test(link, another_key_does_not_open)
{
	stay_out(with_key(A, KEY_A), B, with_key(B, KEY_B));
}

Test(link, a_call_for_another_node_is_not_answered)
{
	stay_out(with_key(A, KEY_A), C, with_key(B, KEY_A));
}

Test(link, a_call_that_comes_back_to_its_caller_is_not_answered)
{
	struct credentials *a = with_key(A, KEY_A);
	stay_out(a, B, a);
}

Test(link, while_the_key_is_changed_both_are_taken_and_the_first_is_used)
{
	static const struct {
		const char *caller, *callee;
		bool opens;
	} cases[] = {{KEY_A, KEY_B KEY_A, true},
		     {KEY_B KEY_A, KEY_B, true},
		     {KEY_B KEY_A, KEY_A KEY_B, true},
		     {KEY_A KEY_B, KEY_B, false}};
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rc[2];
		struct pair p = connect_pair(with_key(A, cases[i].caller), B, with_key(B, cases[i].callee));
		shake_hands(&p, rc);
		cr_expect_eq(works(&p), cases[i].opens, "case %u: %d, %d", i, rc[0], rc[1]);
		end_pair(&p);
	}
}

/* A server with a certificate that anybody can make. */
static SSL_CTX *impostor(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const unsigned char *)"b", -1, -1,
				   0);
	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	X509_set_pubkey(cert, key);
	X509_sign(cert, key, EVP_sha256());
	cr_assert(SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1);
	X509_free(cert);
	EVP_PKEY_free(key);
	return ctx;
}

Test(link, a_certificate_in_place_of_the_key_is_not_believed)
{
	int rc[2];
	SSL_CTX *ctx = impostor();
	struct pair p = connect_pair(with_key(A, KEY_A), B, with_key(B, KEY_B));
	p.answer->state = LINK_SHAKING;
	p.answer->ssl = SSL_new(ctx);
	SSL_set_accept_state(p.answer->ssl);
	cr_assert(SSL_set_fd(p.answer->ssl, p.answer->fd));
	shake_hands(&p, rc);
	cr_expect_lt(rc[0], 0);
	end_pair(&p);
	SSL_CTX_free(ctx);
}

/* Of a caller that has the key, and would like something weaker. */
static void stay_out_with(int (*weaken)(SSL *ssl))
{
	int rc[2];
	struct pair p = connect_pair(with_key(A, KEY_A), B, with_key(B, KEY_A));
	cr_assert_eq(weaken(p.call->ssl), 1);
	shake_hands(&p, rc);
	cr_expect_lt(rc[0], 0);
	cr_expect_lt(rc[1], 0);
	end_pair(&p);
}

static int older(SSL *ssl)
{
	return SSL_set_min_proto_version(ssl, TLS1_2_VERSION) && SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
}

static int other_cipher(SSL *ssl)
{
	return SSL_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256");
}

Test(link, nothing_weaker_is_agreed_on)
{
	stay_out_with(older);
	stay_out_with(other_cipher);
}

/* Of a first flight that stops before its end, too; and whoever has said all of it costs no buffers before it has proved who it is. */
Test(link, who_says_nothing_costs_no_connection_of_TLS)
{
	struct pair p = connect_pair(with_key(A, KEY_A), B, with_key(B, KEY_A));
	cr_expect_eq(p.answer->state, LINK_STRANGER);
	cr_expect_null(p.answer->ssl);
	cr_assert_eq(send(p.call->fd, "\x16\x03\x01\x01\x2c\x01\x00\x01\x28", 9, MSG_NOSIGNAL), 9);
	settle(p.call, p.answer);
	cr_expect_eq(link_shake(p.answer, p.callee), 0);
	cr_expect_eq(p.answer->state, LINK_STRANGER);
	cr_expect_null(p.answer->ssl);
	end_pair(&p);
}

Test(link, who_has_not_proved_who_it_is_costs_no_buffers)
{
	struct pair p = connect_pair(with_key(A, KEY_A), B, with_key(B, KEY_A));
	uint64_t deadline = clock_deadline(10 * CLOCK_NS_PER_S);
	cr_assert_eq(link_shake(p.call, p.caller), 0); /* connected: its first flight is out */
	while (p.answer->state == LINK_STRANGER && clock_now() < deadline)
		cr_assert_eq(link_shake(p.answer, p.callee), 0);
	cr_expect_eq(p.answer->state, LINK_SHAKING);
	cr_expect(p.answer->met, "nothing is computed before the caller is known");
	cr_expect_eq(credentials_claimed(p.answer->ssl), A);
	cr_expect_not(credentials_known(p.answer->ssl));
	cr_assert_eq(link_shake(p.answer, p.callee), 0);
	cr_expect_not(p.answer->met);
	cr_expect(credentials_known(p.answer->ssl));
	cr_expect_null(p.answer->in);
	cr_expect_null(p.answer->out);
	end_pair(&p);
}

static void count_said(int out, int version, int type, const void *bytes, size_t len, SSL *ssl, void *arg)
{
	(void)version, (void)bytes, (void)len, (void)ssl;
	*(unsigned *)arg += out && type == SSL3_RT_HANDSHAKE;
}

/* Each of which the other end must make, too, and answer. */
Test(link, new_keys_without_end_end_it)
{
	struct pair p = open_pair();
	unsigned said = 0;
	int rc = 0;
	SSL_set_msg_callback(p.call->ssl, count_said);
	SSL_set_msg_callback_arg(p.call->ssl, &said);
	for (unsigned n = 0; !rc && n < 1000; n++) {
		cr_assert(SSL_key_update(p.call->ssl, SSL_KEY_UPDATE_REQUESTED) == 1 &&
			  SSL_do_handshake(p.call->ssl) == 1);
		settle(p.answer, p.answer);
		rc = link_read(p.answer, &frame);
		while (SSL_read(p.call->ssl, body, sizeof(body)) > 0)
			; /* what it answers */
	}
	cr_expect_eq(rc, -EPROTO);
	cr_expect_eq(p.answer->asides, 5u);
	cr_expect_leq(said, 12u, "%u were said", said);
	end_pair(&p);
}

/* Nobody reads again before more has come: what stands behind new keys must not be left in OpenSSL. */
Test(link, a_frame_behind_new_keys_needs_nothing_behind_it)
{
	static const int kinds[] = {SSL_KEY_UPDATE_REQUESTED, SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED,
				    SSL_KEY_UPDATE_REQUESTED};
	struct pair p = open_pair();
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct pollfd fd = {p.answer->fd, POLLIN, 0};
		int rc = 0;
		cr_assert(SSL_key_update(p.call->ssl, kinds[i]) == 1 && SSL_do_handshake(p.call->ssl) == 1);
		link_write(p.call, FRAME_BEAT, "12345678", 8);
		cr_assert_eq(link_flush(p.call), 0);
		while (!rc && poll(&fd, 1, 500) > 0)
			rc = link_read(p.answer, &frame);
		cr_expect_eq(rc, 1, "%u: %d", i, rc);
		cr_expect_eq(frame.kind, FRAME_BEAT);
	}
	end_pair(&p);
}

/* The descriptor tells nothing of what OpenSSL has read. */
Test(link, a_link_is_dry_when_all_that_has_come_was_read)
{
	struct pair p = open_pair();
	struct pollfd fd = {p.answer->fd, POLLIN, 0};
	for (unsigned i = 0; i < 3; i++)
		link_write(p.call, FRAME_BEAT, "12345678", 8);
	cr_assert_eq(link_flush(p.call), 0);
	cr_assert_gt(poll(&fd, 1, 10000), 0);
	for (unsigned left = 3; left-- > 0;) {
		cr_assert_eq(link_read(p.answer, &frame), 1);
		cr_expect_eq(link_is_dry(p.answer), !left, "%u are left", left);
	}
	cr_expect_eq(poll(&fd, 1, 0), 0);
	end_pair(&p);
}

Test(link, new_keys_in_one_go_are_not_all_made)
{
	struct pair p = open_pair();
	for (unsigned n = 0; n < 500; n++)
		cr_assert(SSL_key_update(p.call->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
			  SSL_do_handshake(p.call->ssl) == 1);
	int rc = 0;
	for (unsigned n = 0; !rc && n < 100; n++) {
		settle(p.answer, p.answer);
		rc = link_read(p.answer, &frame);
	}
	cr_expect_eq(rc, -EPROTO);
	cr_expect_leq(p.answer->asides, 8u, "%lu were made", p.answer->asides);
	end_pair(&p);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static size_t length_of(unsigned i)
{
	return i % 7 ? i * 131 % (FRAME_BODY_MAX + 1) : i % 2 ? 0 : FRAME_BODY_MAX;
}

/* Sends frames as fast as they go, and reads them at the other end. */
static void stream(struct link *from, struct link *to, unsigned count)
{
	uint64_t deadline = clock_deadline(20 * CLOCK_NS_PER_S);
	unsigned sent = 0, taken = 0;
	while (taken < count && clock_now() < deadline) {
		for (; sent < count && link_has_room(from, length_of(sent)); sent++) {
			memset(body, (int)sent, sizeof(body));
			link_write(from, FRAME_DATA, body, length_of(sent));
		}
		cr_assert_eq(link_flush(from), 0);
		settle(from, to);
		for (int rc; (rc = link_read(to, &frame)); taken++) {
			cr_assert_eq(rc, 1);
			cr_assert_eq(frame.kind, FRAME_DATA);
			cr_assert_eq(frame.len, length_of(taken));
			memset(body, (int)taken, sizeof(body));
			cr_assert_arr_eq(frame.body, body, frame.len);
		}
	}
	cr_assert_eq(taken, count);
}

Test(link, frames_of_every_length_arrive_whole_and_in_order)
{
	struct pair p = open_pair();
	stream(p.call, p.answer, 3000);
	stream(p.answer, p.call, 3000);
	end_pair(&p);
}

Test(link, keys_are_renewed_on_the_way)
{
	struct pair p = open_pair();
	for (unsigned i = 0; i < 6; i++) { /* as often as an honest end does, it may be done for ever */
		p.call->records = (1 << 22) - 3;
		stream(p.call, p.answer, 100);
		cr_expect_lt(p.call->records, 1000);
		p.answer->reads += 1 << 22;
	}
	end_pair(&p);
}

Test(link, what_is_no_frame_ends_it)
{
	static const uint8_t wrong[][4] = {
		{0, 0, 0, 0}, {FRAME_KIND_END, 0, 1, 0}, {FRAME_DATA, 0, 1, 0x10}, {0xff, 0xff, 0, 0}};
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct pair p = open_pair();
		int rc;
		cr_assert_eq(SSL_write(p.call->ssl, wrong[i], 4), 4);
		while (!(rc = link_read(p.answer, &frame)))
			settle(p.call, p.answer);
		cr_expect_eq(rc, -EPROTO, "case %u", i);
		cr_expect_eq(p.answer->state, LINK_OVER);
		end_pair(&p);
	}
}

/* ---- somebody in the middle -------------------------------------------------------------------------------------- */

/* The call goes through here: bytes towards the answer are counted, and one bit of one of them is changed, or they are cut there. */
struct middle {
	int to_call, to_answer;
	uint64_t seen, flip, cut;
};

static struct pair open_through(struct middle *m)
{
	union address here, there;
	AUTO_CLOSE int first = listening(&here), second = listening(&there);
	struct pair p = {.caller = with_key(A, KEY_A), .callee = with_key(B, KEY_A)};
	p.call = link_call(p.caller, B, 0, &here);
	m->to_call = accepted(first);
	m->to_answer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(m->to_answer, &there.any, sizeof(there.v4)), 0);
	p.answer = link_accept(accepted(second), &there);
	return p;
}

static void carry(struct middle *m)
{
	uint8_t bytes[4096];
	ssize_t n = recv(m->to_answer, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n > 0)
		cr_assert_eq(send(m->to_call, bytes, (size_t)n, MSG_NOSIGNAL), n);
	n = recv(m->to_call, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n <= 0)
		return;
	if (m->flip && m->flip > m->seen && m->flip <= m->seen + (uint64_t)n)
		bytes[m->flip - m->seen - 1] ^= 0x10;
	if (m->cut && m->seen + (uint64_t)n >= m->cut) {
		shutdown(m->to_answer, SHUT_WR);
		n = 0;
	}
	m->seen += (uint64_t)n;
	(void)send(m->to_answer, bytes, (size_t)n, MSG_NOSIGNAL);
}

/* Where something is changed or cut, the ends may wait for bytes for ever; otherwise all arrives, however busy the machine is. */
static uint64_t patience(const struct middle *m)
{
	return clock_deadline(m->flip || m->cut ? CLOCK_NS_PER_S / 4 : 60 * CLOCK_NS_PER_S);
}

/* Opens it and sends five frames: how many arrive. */
static unsigned attempt(struct middle *m)
{
	struct pair p = open_through(m);
	uint64_t deadline = patience(m);
	unsigned taken = 0, written = 0;
	int up[2] = {0, 0};
	while (taken < 5 && up[0] >= 0 && up[1] >= 0 && clock_now() < deadline) {
		carry(m);
		up[0] = up[0] == 1 ? 1 : shake(p.call, p.caller);
		up[1] = up[1] == 1 ? 1 : shake(p.answer, p.callee);
		for (; up[0] == 1 && written < 5; written++)
			link_write(p.call, FRAME_BEAT, "abcdefgh", 8);
		if (up[0] == 1 && link_flush(p.call))
			break;
		int rc = up[1] == 1 ? link_read(p.answer, &frame) : 0;
		if (rc < 0)
			break;
		taken += rc == 1 && frame.kind == FRAME_BEAT && frame.len == 8 && !memcmp(frame.body, "abcdefgh", 8);
		cr_assert(!rc || frame.kind == FRAME_BEAT, "a frame that nobody sent");
	}
	end_pair(&p);
	close(m->to_call);
	close(m->to_answer);
	return taken;
}

Test(link, a_bit_that_is_changed_anywhere_lets_nothing_in_behind_it)
{
	struct middle plain = {.seen = 0};
	cr_assert_eq(attempt(&plain), 5);
	cr_assert_gt(plain.seen, 200);
	/* Up to the first frame nothing comes through, and never a frame that was changed; of TLS's record headers some bits mean nothing. */
	for (uint64_t at = 1; at <= plain.seen; at += 1 + at / 16) {
		struct middle m = {.flip = at};
		cr_expect_leq(attempt(&m), 5u, "byte %lu", at);
	}
	struct middle last = {.flip = plain.seen};
	cr_expect_lt(attempt(&last), 5u);
}

/* Opens it, has it go on sealed, and sends 64 KiB: how much of it arrives, which must be what was sent. */
static size_t attempt_sealed(struct middle *m)
{
	static uint8_t sent[64 << 10], got[sizeof(sent)];
	struct pair p = open_through(m);
	uint64_t deadline = patience(m);
	size_t out = 0, in = 0;
	int up[2] = {0, 0}, n = 0;
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (uint8_t)(i * 131 >> 3);
	while (in < sizeof(sent) && n >= 0 && up[0] >= 0 && up[1] >= 0 && clock_now() < deadline) {
		bool was[2] = {up[0] == 1, up[1] == 1};
		carry(m);
		up[0] = was[0] ? 1 : shake(p.call, p.caller);
		up[1] = was[1] ? 1 : shake(p.answer, p.callee);
		cr_assert((was[0] || up[0] != 1 || link_seal(p.call)) && (was[1] || up[1] != 1 || link_seal(p.answer)));
		if (up[0] == 1 && out < sizeof(sent) && (n = link_put(p.call, sent + out, sizeof(sent) - out)) > 0)
			out += (size_t)n;
		if (up[0] == 1 && n >= 0)
			n = link_push(p.call);
		if (up[1] == 1 && n >= 0 && (n = link_get(p.answer, got + in, sizeof(got) - in)) > 0)
			in += (size_t)n;
	}
	cr_expect_eq(memcmp(sent, got, in), 0, "bytes that nobody sent");
	end_pair(&p);
	close(m->to_call);
	close(m->to_answer);
	return in;
}

Test(link, sealed_bytes_arrive_as_they_were_sent_or_not_at_all)
{
	struct middle plain = {.seen = 0};
	cr_assert_eq(attempt_sealed(&plain), 64 << 10);
	for (uint64_t at = plain.seen - (64 << 10); at <= plain.seen; at += 2111) {
		struct middle m = {.flip = at};
		cr_expect_lt(attempt_sealed(&m), 64 << 10, "byte %lu", at);
	}
}

Test(link, both_ends_have_the_same_token_and_no_other_connection_has_it)
{
	uint8_t tokens[4][LINK_TOKEN];
	struct pair p = open_pair(), q = open_pair();
	cr_assert(link_token(p.call, "label", NULL, 0, tokens[0]) && link_token(p.answer, "label", NULL, 0, tokens[1]));
	cr_assert(link_token(q.call, "label", NULL, 0, tokens[2]) && link_token(q.answer, "label", NULL, 0, tokens[3]));
	cr_expect_arr_eq(tokens[0], tokens[1], LINK_TOKEN);
	cr_expect_arr_eq(tokens[2], tokens[3], LINK_TOKEN);
	cr_expect_neq(memcmp(tokens[0], tokens[2], LINK_TOKEN), 0);
	end_pair(&p);
	end_pair(&q);
}

Test(link, what_is_cut_anywhere_is_not_whole)
{
	struct middle plain = {.seen = 0};
	cr_assert_eq(attempt(&plain), 5);
	for (uint64_t at = 1; at <= plain.seen; at += 1 + at / 8) {
		struct middle m = {.cut = at};
		cr_expect_lt(attempt(&m), 5u, "byte %lu", at);
	}
}
