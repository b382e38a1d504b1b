#include "format/message/peer_replica.h"

#include "said.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define LLVMFuzzerTestOneInput fuzz_peer_replica
#include "../../../fuzz/fuzz_peer_replica.c"
#undef LLVMFuzzerTestOneInput

static const struct peer_head head = {.job = "gpt", .epoch = 3, .token = 77};
static const struct peer_shape shape = {.table = {1, 2}, .table_len = 300, .nleaves = 5, .slot_size = 4096 * 70};
static const struct peer_tickets tickets = {{1, 2, 300}, {3, 4, 40}, {5, 6, 4096 * 70}};

static struct peer_offer an_offer(void)
{
	return (struct peer_offer){.head = head,
				   .rank = 2,
				   .world = 4,
				   .id = {100, 3},
				   .keep = {90, 2},
				   .began = 2,
				   .lacks = 4,
				   .shape = shape};
}

/* Decodes what was encoded, adds it to said, refuses every prefix and one byte more: in memory of exact size, so that the sanitizer sees an overrun. */
#define ROUND_TRIP(name, in, said)                                                                                     \
	do {                                                                                                           \
		AUTO_WBUF struct wbuf w_ = {0};                                                                        \
		struct err err_ = {0};                                                                                 \
		struct peer_##name back_;                                                                              \
		cr_assert_eq(peer_##name##_encode(&(in), &w_), 0);                                                     \
		cr_assert_eq(peer_##name##_decode(w_.data, w_.len, &back_, &err_), 0, "%s", err_.text);                \
		AUTO_WBUF struct wbuf again_ = {0};                                                                    \
		cr_assert_eq(peer_##name##_encode(&back_, &again_), 0);                                                \
		cr_assert_eq(again_.len, w_.len);                                                                      \
		cr_assert_arr_eq(again_.data, w_.data, w_.len);                                                        \
		wbuf_put(said, w_.data, w_.len);                                                                       \
		for (size_t len_ = 0; len_ <= w_.len + 1; len_++) {                                                    \
			uint8_t *body_ = calloc(1, len_ ? len_ : 1);                                                   \
			memcpy(body_, w_.data, len_ < w_.len ? len_ : w_.len);                                         \
			int rc_ = peer_##name##_decode(body_, len_, &back_, &err_);                                    \
			cr_assert_eq(rc_, len_ == w_.len ? 0 : -EBADMSG, "length %zu of %zu", len_, w_.len);           \
			free(body_);                                                                                   \
		}                                                                                                      \
	} while (0)

Test(peer_replica, every_message_comes_back_and_no_other_length_does)
{
	struct peer_offer offer = an_offer();
	struct peer_open open = {.head = head, .tickets = tickets};
	struct peer_fetch fetch = {
		.head = head, .rank = 2, .world = 4, .id = {100, 3}, .same_table = true, .table = {1, 2}};
	struct peer_source source = {
		.head = head, .world = 4, .began = 2, .lacks = 8, .shape = shape, .tickets = tickets};
	struct peer_refused refused = {.head = head, .rc = -ENOMEM, .text = "no room"};
	struct peer_forget forget = {.head = head, .before = {90, 2}};
	AUTO_WBUF struct wbuf items = {0}, said = {0};
	peer_holding_put(&(struct peer_holding){.rank = 2, .world = 4, .owner = 7, .id = {100, 3}, .table = {1, 2}},
			 &items);
	peer_holding_put(&(struct peer_holding){.rank = 3, .world = 4, .id = {90, 2}, .table = {3, 4}}, &items);
	cr_assert_eq(items.len, 2 * PEER_HOLDING_BYTES);
	struct peer_holdings holdings = {.head = head, .n = 2, .items = items.data};
	ROUND_TRIP(holdings, holdings, &said);
	ROUND_TRIP(offer, offer, &said);
	ROUND_TRIP(open, open, &said);
	ROUND_TRIP(fetch, fetch, &said);
	ROUND_TRIP(source, source, &said);
	ROUND_TRIP(refused, refused, &said);
	ROUND_TRIP(forget, forget, &said);
	expect_said(&said, "1f70707a3ea65fc089f54d2314f491c5");
}

Test(peer_replica, where_a_state_began_goes_with_its_copy)
{
	AUTO_WBUF struct wbuf sent = {0}, fetched = {0};
	struct peer_offer offer = an_offer();
	struct peer_source source = {
		.head = head, .world = 4, .began = 2, .lacks = 8, .shape = shape, .tickets = tickets};
	struct err err;
	cr_assert_eq(peer_offer_encode(&offer, &sent), 0);
	cr_assert_eq(peer_source_encode(&source, &fetched), 0);
	offer.began = source.began = 0;
	cr_assert_eq(peer_offer_decode(sent.data, sent.len, &offer, &err), 0);
	cr_assert_eq(peer_source_decode(fetched.data, fetched.len, &source, &err), 0);
	cr_expect(offer.began == 2 && offer.lacks == 4);
	cr_expect(source.began == 2 && source.lacks == 8);
}

Test(peer_replica, the_short_messages_are_a_head)
{
	AUTO_WBUF struct wbuf w = {0};
	struct peer_head back;
	struct err err;
	cr_assert_eq(peer_head_encode(&head, &w), 0);
	cr_assert_eq(peer_head_decode(PEER_SEAL, w.data, w.len, &back, &err), 0);
	cr_expect_str_eq(back.job, "gpt");
	cr_expect_eq(back.epoch, 3);
	cr_expect_eq(back.token, 77);
	cr_expect_eq(peer_head_decode(PEER_SEAL, w.data, w.len - 1, &back, &err), -EBADMSG);
	cr_expect(strstr(err.text, "SEAL"), "%s", err.text);
}

#define REFUSES_OFFER(change)                                                                                          \
	do {                                                                                                           \
		struct peer_offer m = an_offer();                                                                      \
		change;                                                                                                \
		AUTO_WBUF struct wbuf w_ = {0};                                                                        \
		struct err err_ = {0};                                                                                 \
		struct peer_offer back_;                                                                               \
		cr_assert_eq(peer_offer_encode(&m, &w_), 0);                                                           \
		cr_expect_eq(peer_offer_decode(w_.data, w_.len, &back_, &err_), -EBADMSG, #change);                    \
		cr_expect(strstr(err_.text, "OFFER"), "%s: %s", #change, err_.text);                                   \
	} while (0)

Test(peer_replica, what_cannot_be_is_refused_before_anything_is_made_of_it)
{
	REFUSES_OFFER(m.head.job[0] = '/');
	REFUSES_OFFER(m.head.job[0] = 0);
	REFUSES_OFFER(m.head.epoch = 0);
	REFUSES_OFFER(m.head.epoch = EPOCH_MAX + 1);
	REFUSES_OFFER(m.rank = m.world);
	REFUSES_OFFER(m.world = RANK_MAX + 1);
	REFUSES_OFFER(m.id.epoch = 0);
	REFUSES_OFFER(m.id.step = STEP_MAX + 1);
	REFUSES_OFFER(m.keep.epoch = 0);
	REFUSES_OFFER(m.shape.table_len = 0);
	REFUSES_OFFER(m.shape.table_len = PEER_TABLE_MAX + 1ull);
	REFUSES_OFFER(m.shape.slot_size++);
	REFUSES_OFFER(m.shape.slot_size = PEER_SLOT_MAX + 4096);
	REFUSES_OFFER(m.shape.nleaves = m.shape.slot_size + 1);
}

Test(peer_replica, what_is_held_is_looked_at_one_by_one)
{
	AUTO_WBUF struct wbuf items = {0}, w = {0}, wrong = {0};
	struct peer_holdings m = {.head = head, .n = 1}, back;
	struct peer_holding h = {.rank = 3, .world = 4, .owner = 9, .id = {90, 2}, .table = {3, 4}};
	struct err err = {{0}};
	peer_holding_put(&h, &items);
	m.items = items.data;
	cr_assert_eq(peer_holdings_encode(&m, &w), 0);
	cr_assert_eq(peer_holdings_decode(w.data, w.len, &back, &err), 0, "%s", err.text);
	struct peer_holding got = peer_holding_at(&back, 0);
	cr_expect_eq(got.rank, 3);
	cr_expect_eq(got.id.step, 90);
	cr_expect_eq(got.table.high, 4);
	items.len = 0;
	h.rank = 4;
	peer_holding_put(&h, &items);
	m.items = items.data;
	cr_assert_eq(peer_holdings_encode(&m, &wrong), 0);
	cr_expect_eq(peer_holdings_decode(wrong.data, wrong.len, &back, &err), -EBADMSG);
	cr_expect(strstr(err.text, "HOLDINGS message with rank 4"), "%s", err.text);
}

Test(peer_replica, a_refusal_has_an_error_and_no_control_characters)
{
	AUTO_WBUF struct wbuf w = {0}, good = {0};
	struct peer_refused m = {.head = head, .rc = 0, .text = "x"}, back;
	cr_assert_eq(peer_refused_encode(&m, &good), 0);
	cr_expect_eq(peer_refused_decode(good.data, good.len, &back, NULL), -EBADMSG);
	m = (struct peer_refused){.head = head, .rc = -EIO, .text = "a\033[2Jb\n"};
	cr_assert_eq(peer_refused_encode(&m, &w), 0);
	cr_assert_eq(peer_refused_decode(w.data, w.len, &back, NULL), 0);
	cr_expect_str_eq(back.text, "a [2Jb ");
}

/* The first thousands of inputs that a fuzzer would try. */
Test(peer_replica, mutations_are_refused_or_mean_what_they_say)
{
	AUTO_WBUF struct wbuf w = {0};
	struct peer_offer offer = an_offer();
	uint64_t seed = 1;
	wbuf_u8(&w, 0);
	cr_assert_eq(peer_offer_encode(&offer, &w), 0);
	for (int round = 0; round < 20000; round++) {
		uint8_t *data = malloc(w.len);
		memcpy(data, w.data, w.len);
		for (int flips = 0; flips < 1 + round % 3; flips++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			data[(seed >> 33) % w.len] ^= (uint8_t)(1 << (seed >> 20) % 8);
		}
		cr_assert_eq(fuzz_peer_replica(data, w.len), 0);
		free(data);
	}
}
