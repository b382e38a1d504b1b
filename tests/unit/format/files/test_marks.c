#include "format/files/marks.h"
#include "format/sample.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct health damaged = {
	.job = "gpt",
	.id = {1000, 3},
	.verified_at = 1700000000123456789,
	.damaged = true,
	.detail = "rank-00000-of-00008.params.safetensors: \"wte\" bytes [65536, 131072)\n\t\\",
};
static const struct pin pinned = {.job = "gpt", .id = {7, 1}, .pinned_at = 1700000000123456789, .note = "größer"};

Test(marks, health_comes_back_as_it_was)
{
	struct wbuf text = {0};
	struct health back;
	struct err err = {""};
	cr_assert_eq(health_encode(&damaged, &text), 0);
	cr_assert_eq(health_decode(text.data, text.len, &back, &err), 0, "%s", err.text);
	cr_assert_eq(memcmp(&damaged, &back, sizeof(back)), 0);
	wbuf_free(&text);

	struct health fine = {.job = "gpt", .id = {1, 1}, .verified_at = 1};
	cr_assert_eq(health_encode(&fine, &text), 0);
	cr_assert_eq(health_decode(text.data, text.len, &back, &err), 0, "%s", err.text);
	cr_assert_eq(memcmp(&fine, &back, sizeof(back)), 0);
	wbuf_free(&text);
}

Test(marks, a_health_mark_comes_back_as_it_was)
{
	static const struct health_mark both[] = {
		{.job = "gpt", .id = {1000, 3}, .given_at = 1700000000123456789, .reason = "8 good steps since"},
		{.job = "gpt", .id = {7, 1}, .given_at = 1, .unhealthy = true, .reason = "loss is nan"},
	};
	struct health_mark back;
	struct health health;
	struct err err = {""};
	for (size_t i = 0; i < 2; i++) {
		struct wbuf text = {0};
		cr_assert_eq(health_mark_encode(&both[i], &text), 0);
		cr_assert_eq(health_mark_decode(text.data, text.len, &back, &err), 0, "%s", err.text);
		cr_assert_eq(memcmp(&both[i], &back, sizeof(back)), 0);
		cr_assert_eq(health_decode(text.data, text.len, &health, &err), -EBADMSG,
			     "it says nothing of the bytes");
		wbuf_free(&text);
	}
	struct wbuf text;
	sample_sealed(
		"{\"format\":\"ckpt.verdict\",\"version\":1,\"job\":\"gpt\",\"step\":1,\"epoch\":1,\"given_at\":5,"
		"\"result\":\"ok\",\"reason\":\"\"",
		&text);
	cr_assert_eq(health_mark_decode(text.data, text.len, &back, &err), -EBADMSG);
	cr_assert(strstr(err.text, "neither \"healthy\" nor \"unhealthy\""), "%s", err.text);
	cr_assert_eq(back.job[0], 0);
	wbuf_free(&text);
}

Test(marks, a_pin_comes_back_as_it_was)
{
	struct wbuf text = {0};
	struct pin back;
	struct err err = {""};
	cr_assert_eq(pin_encode(&pinned, &text), 0);
	cr_assert_eq(pin_decode(text.data, text.len, &back, &err), 0, "%s", err.text);
	cr_assert_eq(memcmp(&pinned, &back, sizeof(back)), 0);
	wbuf_free(&text);
}

Test(marks, an_epoch_comes_back_as_it_was)
{
	static const struct begun fourth = {
		.job = "gpt", .id = {0, 4}, .begun_at = 1700000000123456789, .reason = "rank 1 is lost"};
	struct wbuf text = {0};
	struct begun back;
	struct pin pin;
	struct err err = {""};
	cr_assert_eq(begun_encode(&fourth, &text), 0);
	cr_assert_eq(begun_decode(text.data, text.len, &back, &err), 0, "%s", err.text);
	cr_assert_eq(memcmp(&fourth, &back, sizeof(back)), 0);
	cr_assert_eq(pin_decode(text.data, text.len, &pin, &err), -EBADMSG, "an epoch is no pin");
	wbuf_free(&text);
}

static int begun_again(const struct begun *b, struct begun *back, struct err *err)
{
	struct wbuf text = {0};
	cr_assert_eq(begun_encode(b, &text), 0);
	int rc = begun_decode(text.data, text.len, back, err);
	wbuf_free(&text);
	return rc;
}

Test(marks, an_epoch_says_who_has_which_ranks)
{
	struct begun b = {.job = "gpt", .id = {0, 4}, .begun_at = 1, .reason = "rank 1 is lost"}, back;
	struct err err = {""};
	b.plan.number = 3;
	cr_assert_eq(plan_record_add(&b.plan, "n0", 1), 0);
	cr_assert_eq(begun_again(&b, &back, &err), 0, "%s", err.text);
	cr_expect(back.plan.number == 3 && back.plan.world == 1 && back.plan.runs[0].was == 1);
	begun_free(&back);
	b.plan.runs[0].node[0] = '/';
	cr_expect_eq(begun_again(&b, &back, &err), -EBADMSG);
	cr_expect_eq(back.plan.number, 0, "nothing is left to be freed");
	begun_free(&b);
}

/* As older releases wrote them; and of one that does not know the field the rest can be read. */
Test(marks, an_epoch_says_which_plan_was_the_last_of_a_run_that_has_ended)
{
	struct begun b = {.job = "gpt", .id = {0, 4}, .begun_at = 1, .plan.number = 3}, back;
	struct err err = {""};
	struct wbuf text = {0};
	cr_assert_eq(begun_again(&b, &back, &err), 0, "%s", err.text);
	cr_expect_eq(back.ended, 0);
	b.ended = 3;
	cr_assert_eq(begun_again(&b, &back, &err), 0, "%s", err.text);
	cr_expect(back.ended == 3 && back.plan.number == 3 && !back.finished);
	b.finished = 3;
	cr_assert_eq(begun_again(&b, &back, &err), 0, "%s", err.text);
	cr_expect(back.ended == 3 && back.finished == 3);
	b.ended = PLAN_NUMBER_MAX;
	cr_assert_eq(begun_encode(&b, &text), 0);
	cr_expect(memmem(text.data, text.len, ",\"ended\":2147483647,", 20));
	cr_assert_eq(begun_decode(text.data, text.len, &back, &err), 0, "%s", err.text);
	cr_expect_eq(back.ended, (uint32_t)PLAN_NUMBER_MAX);
	wbuf_free(&text);
	b.ended++;
	cr_expect_eq(begun_again(&b, &back, &err), -EBADMSG, "no plan has that number");
}

Test(marks, an_epoch_whose_plan_is_in_too_many_pieces_is_not_written)
{
	struct begun b = {.job = "gpt", .id = {0, 4}, .begun_at = 1, .plan.number = 1};
	struct wbuf text = {0};
	for (uint32_t r = 0; r < 8192; r++)
		for (int k = 0; k < 2; k++)
			cr_assert_eq(plan_record_add(&b.plan, r % 2 ? "node-with-a-name-of-30-letters" : "b",
						     65534 - 2 * r + k),
				     0);
	cr_expect_eq(begun_encode(&b, &text), 0, "%zu bytes", text.len);
	wbuf_free(&text);
	for (uint32_t r = 0; r < 16384; r++)
		cr_assert_eq(plan_record_add(&b.plan, r % 2 ? "node-with-a-name-of-30-letters" : "b", PLAN_NEW), 0);
	cr_expect_eq(begun_encode(&b, &text), -EMSGSIZE);
	wbuf_free(&text);
	begun_free(&b);
}

Test(marks, an_epoch_says_which_nodes_are_drained)
{
	struct begun b = {.job = "gpt", .id = {0, 4}, .begun_at = 1, .reason = "rank 1 is lost"}, back;
	struct err err = {""};
	cr_assert_eq(asked_record_drain(&b.asked, "n1"), 0);
	cr_assert_eq(asked_record_drain(&b.asked, "n7"), 0);
	cr_assert_eq(asked_record_drain(&b.asked, "n1"), 0);
	cr_assert_eq(begun_again(&b, &back, &err), 0, "%s", err.text);
	cr_expect_eq(back.asked.ndrained, 2);
	cr_expect(asked_record_is_drained(&back.asked, "n1") && asked_record_is_drained(&back.asked, "n7"));
	begun_free(&back);
	b.asked.drained[1][1] = '1';
	cr_expect_eq(begun_again(&b, &back, &err), -EBADMSG, "a node stands twice");
	b.asked.drained[1][0] = '/';
	cr_expect_eq(begun_again(&b, &back, &err), -EBADMSG);
	cr_expect_eq(back.asked.ndrained, 0, "nothing is left to be freed");
	begun_free(&b);
}

Test(marks, an_epoch_says_when_the_job_was_asked_to_end)
{
	struct begun b = {.job = "gpt", .id = {0, 4}, .begun_at = 1}, back;
	struct err err = {""};
	for (int when = ASKED_NO_HALT; when < ASKED_HALT_END; when++) {
		b.asked.halt_number = 3;
		b.asked.halt = (enum asked_halt)when;
		b.asked.halt_before = when == ASKED_HALT_BEFORE ? 1ull << 60 : 0;
		cr_assert_eq(begun_again(&b, &back, &err), 0, "%s", err.text);
		cr_expect_eq(memcmp(&b.asked, &back.asked, sizeof(b.asked)), 0, "%d", when);
	}
}

Test(marks, what_is_no_halt_is_refused)
{
	static const char *const wrong[] = {"{}", "{\"number\":0}", "{\"number\":4294967296}",
					    "{\"number\":1,\"when\":\"soon\"}", "{\"number\":1,\"when\":\"before\"}"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct asked_record asked = {.halt_number = 0};
		struct err err = {""};
		struct jin in;
		jin_open(&in, wrong[i], strlen(wrong[i]), "EPOCH", &err);
		asked_record_read_halt(&in, &asked);
		cr_expect_eq(in.rc, -EBADMSG, "%s", wrong[i]);
	}
}

Test(marks, an_epoch_says_of_so_many_nodes_that_they_are_drained_and_no_more)
{
	struct begun b = {.job = "gpt", .id = {0, 4}, .begun_at = 1}, back;
	struct err err = {""};
	char name[NAME_NODE_MAX];
	for (int i = 0; i < ASKED_DRAINED_MAX; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		cr_assert_eq(asked_record_drain(&b.asked, name), 0);
	}
	cr_assert_eq(begun_again(&b, &back, &err), 0, "%s", err.text);
	cr_expect_eq(back.asked.ndrained, (uint32_t)ASKED_DRAINED_MAX);
	begun_free(&back);
	cr_expect_eq(asked_record_drain(&b.asked, "one-more"), -ENOSPC);
	begun_free(&b);
}

Test(marks, an_epoch_says_where_the_job_went_back_to)
{
	struct begun b = {.job = "gpt",
			  .id = {0, 4},
			  .begun_at = 1,
			  .back = {2, {{3, {120, 2}}, {4, {130, 3}}}},
			  .reason = "NaN"},
		     back;
	struct err err = {""};
	cr_assert_eq(begun_again(&b, &back, &err), 0, "%s", err.text);
	cr_assert_eq(memcmp(&b, &back, sizeof(back)), 0);
	static const struct rollbacks impossible[] = {
		{1, {{5, {120, 2}}}}, {1, {{3, {120, 3}}}}, {1, {{3, {120, 0}}}}, {2, {{3, {120, 2}}, {4, {120, 2}}}}};
	for (size_t i = 0; i < sizeof(impossible) / sizeof(*impossible); i++) {
		b.back = impossible[i];
		cr_expect_eq(begun_again(&b, &back, &err), -EBADMSG, "%zu", i);
		cr_expect(strstr(err.text, "nothing that a job in epoch 4 can have gone back to"), "%s", err.text);
	}
}

Test(marks, a_tag_comes_back_as_it_was)
{
	static const struct tag best = {.job = "gpt", .id = {7, 1}, .tagged_at = 1700000000123456789, .name = "best"};
	struct wbuf text = {0};
	struct tag back, wrong = best;
	struct pin pin;
	struct err err = {""};
	cr_assert_eq(tag_encode(&best, &text), 0);
	cr_assert_eq(tag_decode(text.data, text.len, &back, &err), 0, "%s", err.text);
	cr_assert_eq(memcmp(&best, &back, sizeof(back)), 0);
	cr_assert_eq(pin_decode(text.data, text.len, &pin, &err), -EBADMSG, "a tag is no pin");
	wbuf_free(&text);

	snprintf(wrong.name, sizeof(wrong.name), "../x");
	cr_assert_eq(tag_encode(&wrong, &text), 0);
	cr_assert_eq(tag_decode(text.data, text.len, &back, &err), -EBADMSG);
	cr_assert(strstr(err.text, "name"), "%s", err.text);
	cr_assert_eq(back.name[0], 0);
	wbuf_free(&text);
}

Test(marks, text_that_is_not_utf8_is_kept_readable)
{
	struct wbuf text = {0};
	struct pin back, odd = {.job = "gpt", .id = {7, 1}, .note = "cut \xe9\x87... \x1b[0m \xf0\x9f\x98\x80"};
	struct err err = {""};
	cr_assert_eq(pin_encode(&odd, &text), 0);
	cr_assert_eq(pin_decode(text.data, text.len, &back, &err), 0, "%s", err.text);
	cr_assert_str_eq(back.note, "cut ??... \x1b[0m \xf0\x9f\x98\x80");
	wbuf_free(&text);
}

Test(marks, one_mark_is_not_taken_for_another)
{
	struct wbuf text = {0};
	struct health health;
	struct err err;
	cr_assert_eq(pin_encode(&pinned, &text), 0);
	cr_assert_eq(health_decode(text.data, text.len, &health, &err), -EBADMSG);
	cr_assert_not_null(strstr(err.text, "\"ckpt.pin\", not \"ckpt.health\""), "%s", err.text);
	wbuf_free(&text);
}

static const char good[] = "{\"format\":\"ckpt.health\",\"version\":1,\"job\":\"gpt\",\"step\":1000,\"epoch\":3,"
			   "\"verified_at\":5,\"result\":\"ok\",\"detail\":\"\"";

static int decode_body(const char *body, struct err *err)
{
	struct wbuf text;
	struct health health;
	*err = (struct err){""};
	sample_sealed(body, &text);
	int rc = health_decode(text.data, text.len, &health, err);
	cr_assert(!rc || (!health.job[0] && !health.detail[0]));
	wbuf_free(&text);
	return rc;
}

Test(marks, wrong_marks_are_refused_with_the_path)
{
	static const struct {
		const char *from, *to, *message;
		int rc;
	} cases[] = {
		{"\"version\":1", "\"version\":2", "version 2, this ckpt reads version 1", -EPROTONOSUPPORT},
		{"\"ok\"", "\"fine\"", "result: \"fine\" is neither", -EBADMSG},
		{"\"verified_at\":5", "\"verified_at\":5.0", "verified_at: is not a whole number", -EBADMSG},
		{"\"verified_at\":5,", "", "\"verified_at\" is missing", -EBADMSG},
		{"\"result\":\"ok\",", "", "\"result\" is missing", -EBADMSG},
		{"\"detail\":\"\"", "\"detail\":null", "detail: is not a string", -EBADMSG},
		{"\"job\":\"gpt\"", "\"job\":\"g/pt\"", "job: ", -EBADMSG},
		{"\"epoch\":3", "\"epoch\":true", "epoch: is not a whole number", -EBADMSG},
	};
	struct err err;
	cr_assert_eq(decode_body(good, &err), 0, "%s", err.text);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *body = sample_replace(good, cases[i].from, cases[i].to);
		cr_expect_eq(decode_body(body, &err), cases[i].rc, "%s", cases[i].to);
		cr_expect_not_null(strstr(err.text, cases[i].message), "%s: \"%s\"", cases[i].to, err.text);
		free(body);
	}
}

Test(marks, a_detail_longer_than_its_bound_is_refused)
{
	char body[3000], detail[MARK_TEXT_MAX + 1];
	struct err err;
	memset(detail, 'x', sizeof(detail));
	for (int over = 0; over < 2; over++) {
		snprintf(body, sizeof(body), "%.*s%.*s\"", (int)strlen(good) - 1, good, MARK_TEXT_MAX - 1 + over,
			 detail);
		cr_assert_eq(decode_body(body, &err), over ? -EBADMSG : 0, "%s", err.text);
	}
}
