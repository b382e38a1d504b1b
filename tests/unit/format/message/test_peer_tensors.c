/* That each message comes back, and no other length does: test_peer_coord.c. */
#include "base/cleanup.h"
#include "format/message/peer_coord.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static const struct peer_report full = {.type = PEER_TENSORS,
					.job = "gpt",
					.epoch = 3,
					.tensors = {.ask = {.rank = 5, .first = 3, .name = 1ull << 63},
						    .digest = 9,
						    .n = 2,
						    .next = 5,
						    .heads = (const uint8_t *)"thirty-two bytes of some tensors",
						    .name = "w",
						    .text = "F32 [10]"}};

static int there_and_back(const struct peer_report *r, struct wbuf *body, struct peer_report *back)
{
	struct err err = {{0}};
	cr_assert_eq(peer_report_encode(r, body), 0);
	int rc = peer_report_decode(r->type, body->data, body->len, back, &err);
	cr_expect(!rc || strstr(err.text, "TENSORS message"), "%s", err.text);
	return rc;
}

Test(peer_tensors, a_list_and_words_come_back)
{
	AUTO_WBUF struct wbuf body = {0};
	struct peer_report back;
	cr_assert_eq(there_and_back(&full, &body, &back), 0);
	const struct peer_tensors *m = &back.tensors;
	cr_expect(m->ask.rank == 5 && m->ask.first == 3 && m->ask.name == 1ull << 63);
	cr_expect(m->digest == 9 && m->n == 2 && m->next == 5);
	cr_expect_arr_eq(m->heads, full.tensors.heads, 2 * TENSOR_HEAD_SIZE);
	cr_expect_str_eq(m->name, "w");
	cr_expect_str_eq(m->text, "F32 [10]");
}

Test(peer_tensors, a_list_that_does_not_end_or_is_too_long_is_refused)
{
	AUTO_WBUF struct wbuf same = {0}, rank = {0}, many = {0};
	static uint8_t heads[(PEER_TENSORS_LISTED + 1) * TENSOR_HEAD_SIZE];
	struct peer_report r = full, back;
	r.tensors.next = r.tensors.ask.first;
	cr_expect_eq(there_and_back(&r, &same, &back), -EBADMSG);
	r = full;
	r.tensors.ask.rank = RANK_MAX;
	cr_expect_eq(there_and_back(&r, &rank, &back), -EBADMSG);
	r = full;
	r.tensors.n = PEER_TENSORS_LISTED + 1;
	r.tensors.heads = heads;
	cr_expect_eq(there_and_back(&r, &many, &back), -EBADMSG);
}

Test(peer_tensors, what_is_asked_of_is_a_rank_and_an_entry_that_can_be)
{
	static const struct peer_tensors_ask asks[] = {
		{5, 3, 1ull << 63}, {RANK_MAX, 0, 0}, {0, REGISTRATION_ENTRIES_MAX + 1, 0}};
	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		AUTO_WBUF struct wbuf body = {0};
		struct peer_order o = {.type = PEER_LIST_TENSORS, .job = "gpt", .tensors = asks[i]}, back;
		struct err err = {{0}};
		cr_assert_eq(peer_order_encode(&o, &body), 0);
		cr_expect_eq(peer_order_decode(o.type, body.data, body.len, &back, &err), i ? -EBADMSG : 0);
		cr_expect(i || memcmp(&back.tensors, &asks[0], sizeof(asks[0])) == 0);
	}
}

Test(peer_tensors, who_is_ready_says_how_each_rank_knows_them)
{
	AUTO_WBUF struct wbuf body = {0};
	struct peer_report r = {.type = PEER_NODE_READY, .job = "gpt", .epoch = 3}, back;
	struct err err = {{0}};
	r.joining = (struct peer_node_ready){.n = 2, .ranks = {4, 5}, .tensors = {1ull << 63, 5}};
	cr_assert_eq(peer_report_encode(&r, &body), 0);
	cr_assert_eq(peer_report_decode(r.type, body.data, body.len, &back, &err), 0, "%s", err.text);
	cr_expect(back.joining.tensors[0] == 1ull << 63 && back.joining.tensors[1] == 5);
}
