#include "format/message/peer_reach.h"

#include "said.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define LLVMFuzzerTestOneInput fuzz_peer_reach
#include "../../../fuzz/fuzz_peer_reach.c"
#undef LLVMFuzzerTestOneInput

static struct peer_reach an_ask(void)
{
	return (struct peer_reach){.type = PEER_REACH_ASK, .number = 7, .job = "gpt", .n = 3, .nodes = {0, 2, 16383}};
}

/* In memory of exact size, so that the sanitizer sees an overrun. */
static int decode(enum peer_type type, const struct wbuf *w, size_t len, struct peer_reach *m)
{
	struct err err = {{0}};
	uint8_t *body = calloc(1, len ? len : 1);
	memcpy(body, w->data, len < w->len ? len : w->len);
	int rc = peer_reach_decode((uint16_t)type, body, len, m, &err);
	cr_expect(!rc || strstr(err.text, peer_reach_name((uint16_t)type)), "%s", err.text);
	free(body);
	return rc;
}

static void comes_back(const struct peer_reach *m)
{
	AUTO_WBUF struct wbuf w = {0}, again = {0};
	struct peer_reach back;
	cr_assert_eq(peer_reach_encode(m, &w), 0);
	for (size_t len = 0; len <= w.len + 1; len++)
		cr_assert_eq(decode(m->type, &w, len, &back), len == w.len ? 0 : -EBADMSG, "length %zu of %zu", len,
			     w.len);
	cr_assert_eq(decode(m->type, &w, w.len, &back), 0);
	cr_assert_eq(peer_reach_encode(&back, &again), 0);
	cr_assert_eq(again.len, w.len);
	cr_assert_arr_eq(again.data, w.data, w.len);
	cr_expect_eq(back.number, m->number);
	cr_expect_eq(back.n, m->n);
	cr_expect_eq(back.all, m->all);
}

Test(peer_reach, every_message_comes_back_and_no_other_length_does)
{
	struct peer_reach ask = an_ask();
	comes_back(&ask);
	comes_back(&(struct peer_reach){.type = PEER_REACH_ANSWER, .number = 7, .all = true});
	comes_back(&(struct peer_reach){.type = PEER_REACH_PING, .number = 8});
	comes_back(&(struct peer_reach){.type = PEER_REACH_PONG, .number = UINT64_MAX});
	cr_expect_str_eq(peer_reach_name(PEER_REACH_PONG), "REACH_PONG");
	cr_expect_str_eq(peer_reach_name(PEER_OFFER), "?");
}

Test(peer_reach, what_is_said_changes_with_the_number_of_the_protocol)
{
	AUTO_WBUF struct wbuf all = {0};
	for (enum peer_type type = PEER_REACH_ASK; type < PEER_REACH_END; type++) {
		struct peer_reach m = an_ask();
		m.type = type;
		wbuf_u16(&all, (uint16_t)type);
		cr_assert_eq(peer_reach_encode(&m, &all), 0);
	}
	expect_said(&all, "52ebdda5af4138d58ffc8859d624c2f0");
}

Test(peer_reach, more_nodes_than_fit_are_refused)
{
	AUTO_WBUF struct wbuf w = {0};
	struct peer_reach ask = an_ask(), back;
	cr_assert_eq(peer_reach_encode(&ask, &w), 0);
	size_t at = w.len - 4 * ask.n - 4;
	const uint8_t count[4] = {(PEER_REACH_NODES + 1) & 0xff, (PEER_REACH_NODES + 1) >> 8};
	memcpy(w.data + at, count, sizeof(count));
	cr_expect_eq(decode(PEER_REACH_ASK, &w, w.len, &back), -EBADMSG);
}

Test(peer_reach, a_job_has_a_name)
{
	AUTO_WBUF struct wbuf w = {0};
	struct peer_reach ask = an_ask(), back;
	memcpy(ask.job, "../gpt", sizeof("../gpt"));
	cr_assert_eq(peer_reach_encode(&ask, &w), 0);
	cr_expect_eq(decode(PEER_REACH_ASK, &w, w.len, &back), -EBADMSG);
}

/* The first thousands of inputs that a fuzzer would try. */
Test(peer_reach, mutations_are_refused_or_mean_what_they_say)
{
	AUTO_WBUF struct wbuf w = {0};
	struct peer_reach ask = an_ask();
	uint64_t seed = 1;
	wbuf_u8(&w, 0);
	cr_assert_eq(peer_reach_encode(&ask, &w), 0);
	for (int round = 0; round < 20000; round++) {
		uint8_t *data = malloc(w.len);
		memcpy(data, w.data, w.len);
		for (int flips = 0; flips < 1 + round % 3; flips++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			data[(seed >> 33) % w.len] ^= (uint8_t)(1 << (seed >> 20) % 8);
		}
		cr_assert_eq(fuzz_peer_reach(data, w.len), 0);
		free(data);
	}
}
