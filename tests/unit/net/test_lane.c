/* What goes over a lane: requests and answers, and what is no such thing. */
#include "cluster/link/lane.h"

#include "cluster/net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

Test(lane, a_request_comes_back_from_its_bytes)
{
	uint8_t bytes[LANE_REQUEST_BYTES];
	const struct lane_request said = {NET_WRITE, NET_CHUNK, 0x1122334455667788, 0x99aabbccddeeff00};
	struct lane_request heard;
	lane_request_encode(&said, bytes);
	cr_assert_eq(lane_request_decode(bytes, &heard), 0);
	cr_expect_eq(heard.kind, said.kind);
	cr_expect_eq(heard.len, said.len);
	cr_expect_eq(heard.key, said.key);
	cr_expect_eq(heard.offset, said.offset);
}

Test(lane, what_is_no_request_is_refused)
{
	static const struct lane_request wrong[] = {
		{0, 1, 0, 0},        {NET_READ + 1, 1, 0, 0},          {UINT32_MAX, 1, 0, 0},
		{NET_READ, 0, 0, 0}, {NET_WRITE, NET_CHUNK + 1, 0, 0},
	};
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint8_t bytes[LANE_REQUEST_BYTES];
		struct lane_request heard;
		lane_request_encode(&wrong[i], bytes);
		cr_expect_eq(lane_request_decode(bytes, &heard), -EPROTO, "request %u", i);
	}
}

Test(lane, an_answer_is_one_to_what_was_asked)
{
	static const struct {
		struct lane_answer answer;
		uint32_t kind;
		uint64_t left;
		int rc;
	} cases[] = {
		{{0, 0}, NET_WRITE, 10, 0},
		{{0, 1}, NET_WRITE, 10, -EPROTO},
		{{0, 10}, NET_READ, 10, 0},
		{{0, 11}, NET_READ, 10, -EPROTO},
		{{0, 0}, NET_READ, 10, -EPROTO},
		{{0, LANE_PIECE}, NET_READ, NET_CHUNK, 0},
		{{0, LANE_PIECE + 1}, NET_READ, NET_CHUNK, -EPROTO},
		{{EACCES, 0}, NET_READ, 10, 0},
		{{ERANGE, 0}, NET_WRITE, 10, 0},
		{{EACCES, 1}, NET_READ, 10, -EPROTO},
		{{EIO, 0}, NET_WRITE, 10, -EPROTO},
		{{(uint32_t)-EACCES, 0}, NET_WRITE, 10, -EPROTO},
	};
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[LANE_ANSWER_BYTES];
		struct lane_answer heard;
		lane_answer_encode(&cases[i].answer, bytes);
		cr_expect_eq(lane_answer_decode(bytes, cases[i].kind, cases[i].left, &heard), cases[i].rc, "case %u",
			     i);
	}
}

Test(lane, a_hello_has_a_name_and_all_of_a_token)
{
	uint8_t body[128];
	struct wbuf w = wbuf_over(body, sizeof(body));
	struct lane_hello said = {.from = "gpu-17"}, heard;
	memset(said.token, 0x5a, sizeof(said.token));
	lane_hello_encode(&said, &w);
	cr_assert_eq(lane_hello_decode(body, w.len, &heard), 0);
	cr_expect_str_eq(heard.from, said.from);
	cr_expect_eq(memcmp(heard.token, said.token, sizeof(said.token)), 0);
	for (size_t len = 0; len < w.len; len++)
		cr_expect_eq(lane_hello_decode(body, len, &heard), -EBADMSG, "%zu bytes", len);
	cr_expect_eq(lane_hello_decode(body, w.len + 1, &heard), -EBADMSG);
}
