/* Forgeries and replays in numbers, without a network between: nightly 1,000,000, else 20,000. None may have an effect: a connection that opens, a
 * byte that is taken, words that are believed. Each test has a share of them, together 100. */
#include "cluster/link/rail_words.h"
#include "cluster/link/sealer.h"

#include "pair.h"

#include <criterion/criterion.h>
#include <openssl/bio.h>
#include <stdlib.h>
#include <string.h>

enum { NIGHTLY = 1000000, EACH_DAY = 20000, SAID_MAX = 4096, HEADER = 5, FRAMES = 3 };

enum { CALLS = 40, SESSIONS = 5, WORDS = 30, RECORDS = 25 };
_Static_assert(CALLS + SESSIONS + WORDS + RECORDS == 100, "shares are of a hundred");

TestSuite(forgeries, .init = pair_setup, .fini = pair_teardown);

static uint64_t below(uint64_t n)
{
	static unsigned short seed[3] = {18};
	return (uint64_t)nrand48(seed) % n;
}

/* Of a hundred, so many are of this kind. */
static unsigned share(unsigned percent)
{
	return (getenv("CKPT_NIGHTLY") ? NIGHTLY : EACH_DAY) / 100 * percent;
}

struct bytes {
	uint8_t at[SAID_MAX];
	size_t len;
};

/* An end that neither hears nor says anything but what is given and taken here. */
static SSL *alone(SSL *ssl)
{
	cr_assert_not_null(ssl);
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	return ssl;
}

static void hear(SSL *ssl, const struct bytes *said)
{
	if (said->len)
		cr_assert_eq(BIO_write(SSL_get_rbio(ssl), said->at, (int)said->len), (int)said->len);
}

static struct bytes said_by(SSL *ssl)
{
	struct bytes said = {.len = 0};
	int n = BIO_read(SSL_get_wbio(ssl), said.at, sizeof(said.at));
	said.len = n > 0 ? (size_t)n : 0;
	return said;
}

struct two {
	SSL *call, *answer;
	struct bytes first, last; /* flights of the caller */
};

/* It stops once, where it knows who says to call. */
static void take_call(SSL *answer)
{
	if (SSL_do_handshake(answer) < 0 && SSL_want_client_hello_cb(answer))
		SSL_do_handshake(answer);
}

static struct two meet(struct credentials *a, struct credentials *b)
{
	struct two t = {.call = alone(credentials_call(a, B, 0)), .answer = alone(credentials_answer(b))};
	struct bytes answer;
	SSL_do_handshake(t.call);
	t.first = said_by(t.call);
	hear(t.answer, &t.first);
	take_call(t.answer);
	answer = said_by(t.answer);
	hear(t.call, &answer);
	cr_assert_eq(SSL_do_handshake(t.call), 1);
	t.last = said_by(t.call);
	hear(t.answer, &t.last);
	cr_assert_eq(SSL_do_handshake(t.answer), 1);
	cr_assert(credentials_proved(t.answer, A));
	return t;
}

static void part(struct two *t)
{
	SSL_free(t->call);
	SSL_free(t->answer);
}

static struct bytes frame(SSL *ssl, unsigned n)
{
	uint8_t text[16] = {(uint8_t)n};
	cr_assert_eq(SSL_write(ssl, text, sizeof(text)), (int)sizeof(text));
	return said_by(ssl);
}

/* A bit of it, but not of the header of the record, some of which mean nothing. */
static void change(struct bytes *said)
{
	uint64_t bit = 8 * HEADER + below(8 * (said->len - HEADER));
	said->at[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

Test(forgeries, no_call_opens_a_connection)
{
	struct credentials *a = with_key(A, KEY_A), *b = with_key(B, KEY_A);
	struct two t = meet(a, b);
	struct bytes frames[FRAMES];
	for (unsigned i = 0; i < FRAMES; i++)
		frames[i] = frame(t.call, i);
	for (unsigned n = 0; n < share(CALLS); n++) {
		SSL *ssl = alone(credentials_answer(b));
		struct bytes first = t.first;
		uint8_t got[16];
		if (n % 3)
			change(&first);
		hear(ssl, &first);
		take_call(ssl);
		cr_assert(n % 3 == 0 || !credentials_known(ssl), "a call that was changed, try %u", n);
		hear(ssl, &t.last);
		hear(ssl, &frames[n % FRAMES]);
		cr_assert_leq(SSL_read(ssl, got, sizeof(got)), 0);
		cr_assert(!SSL_is_init_finished(ssl) && !credentials_proved(ssl, A), "try %u", n);
		SSL_free(ssl);
	}
	part(&t);
	credentials_free(a);
	credentials_free(b);
}

/* Of three frames one is changed, said twice, left out, said by ourselves, or of an earlier session: what comes before it is all that is taken. */
Test(forgeries, no_frame_is_taken_that_was_not_sent)
{
	struct credentials *a = with_key(A, KEY_A), *b = with_key(B, KEY_A);
	struct two former = meet(a, b);
	struct bytes old = frame(former.call, 1);
	for (unsigned n = 0; n < share(SESSIONS); n++) {
		struct two t = meet(a, b);
		struct bytes said[FRAMES], own = frame(t.answer, 1),
					   *in_place[] = {&said[1], &said[0], &said[2], &own, &old};
		uint8_t got[16];
		for (unsigned i = 0; i < FRAMES; i++)
			said[i] = frame(t.call, i);
		if (n % 5 == 0)
			change(&said[1]);
		hear(t.answer, &said[0]);
		cr_assert_eq(SSL_read(t.answer, got, sizeof(got)), 16);
		cr_assert_eq(got[0], 0);
		hear(t.answer, in_place[n % 5]);
		hear(t.answer, &said[2]);
		cr_assert_leq(SSL_read(t.answer, got, sizeof(got)), 0, "try %u", n);
		part(&t);
	}
	part(&former);
	credentials_free(a);
	credentials_free(b);
}

Test(forgeries, no_words_are_believed_that_nobody_said)
{
	struct pair p = open_pair(), former = open_pair();
	struct rail_words heard;
	for (unsigned n = 0; n < share(WORDS); n++) {
		uint8_t said[RAIL_WORDS];
		if (n % 50 == 0)
			cr_assert(rail_words_say(n % 100 ? p.call : former.call, 0, n, said));
		else
			for (unsigned i = 0; i < sizeof(said); i++)
				said[i] = (uint8_t)below(256);
		if (n % 100 == 50)
			said[below(sizeof(said))] ^= (uint8_t)(1 << below(8));
		cr_assert_eq(rail_words_decode(said, sizeof(said), &heard), 0);
		cr_assert(!rail_words_proved(p.answer, &heard), "try %u", n);
	}
	end_pair(&p);
	end_pair(&former);
}

/* Of the second of three records a bit is changed, or it is another one of them, of the other direction, of an earlier lane, or noise. */
Test(forgeries, no_record_of_a_lane_opens_that_was_not_sealed)
{
	enum { LEN = 48, SIZE = LEN + SEALER_MORE };
	static const uint8_t secrets[3][SEALER_SECRET] = {{1}, {2}, {3}};
	struct sealer seals[3] = {{.ctx = NULL}}, opens = {.ctx = NULL};
	uint8_t sealed[3][FRAMES][SIZE], text[LEN] = {7};
	for (unsigned i = 0; i < 3; i++) {
		cr_assert(sealer_key(&seals[i], false, secrets[i]));
		for (unsigned n = 0; n < FRAMES; n++)
			cr_assert(sealer_seal(&seals[i], text, LEN, sealed[i][n]));
	}
	cr_assert(sealer_key(&opens, true, secrets[0]));
	for (unsigned n = 0; n < share(RECORDS); n++) {
		const uint8_t *in_place[] = {sealed[0][1], sealed[0][0], sealed[0][2],
					     sealed[1][1], sealed[2][1], sealed[0][1]};
		uint8_t record[SIZE];
		memcpy(record, in_place[n % 6], SIZE);
		if (n % 6 == 0)
			record[below(SIZE)] ^= (uint8_t)(1 << below(8));
		for (unsigned i = 0; n % 6 == 5 && i < SIZE; i++)
			record[i] = (uint8_t)below(256);
		opens.records = 1;
		cr_assert(!sealer_open(&opens, record, LEN), "try %u", n);
	}
	opens.records = 1;
	cr_expect(sealer_open(&opens, sealed[0][1], LEN), "the genuine one");
	sealer_end(&opens);
	for (unsigned i = 0; i < 3; i++)
		sealer_end(&seals[i]);
}
