#include "format/document/json_in.h"
#include "format/document/json_out.h"
#include "format/sample.h"

#include <criterion/criterion.h>
#include <jansson.h>

static int skip(const char *text, size_t len)
{
	struct jin in;
	struct err err;
	jin_open(&in, text, len, "test", &err);
	jin_skip(&in);
	return jin_close(&in);
}

Test(json, values_of_the_grammar_are_accepted)
{
	static const char *const good[] = {"0",
					   "-0",
					   "12",
					   "-1.5",
					   "1e5",
					   "1.25E-7",
					   "true",
					   "false",
					   "null",
					   "\"\"",
					   "\"\\/\\b\"",
					   "[]",
					   "[ ]",
					   "[1,[2],{}]",
					   "{}",
					   "{ }",
					   " 1\n ",
					   "{\"\":0}",
					   "\"\\ud83d\\ude00\"",
					   "\"\xf0\x9f\x98\x80\"",
					   "{\"a\" : [ ] , \"b\":1}"};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_expect_eq(skip(good[i], strlen(good[i])), 0, "%s", good[i]);
}

Test(json, anything_else_is_refused)
{
	static const char *const bad[] = {"",
					  "01",
					  "-",
					  "1.",
					  ".5",
					  "1e",
					  "+1",
					  "tru",
					  "True",
					  "[",
					  "]",
					  "[1",
					  "[1,]",
					  "[,1]",
					  "[1 2]",
					  "{",
					  "{1:2}",
					  "{\"a\"}",
					  "{\"a\":}",
					  "{\"a\":1,}",
					  "{,}",
					  "\"",
					  "\"\\x\"",
					  "\"\\u12g4\"",
					  "\"\\u123\"",
					  "\"\\ud800\"",
					  "\"\\udc00\"",
					  "\"\n\"",
					  "\"\x01\"",
					  "\"\xff\"",
					  "\"\xed\xa0\x80\"",
					  "\"\xc0\x80\"",
					  "\"\xf5\x80\x80\x80\"",
					  "1 1",
					  "{} {}",
					  "NaN",
					  "-true",
					  "01true",
					  "'a'",
					  "\"\\ud800\\u0041\"",
					  "\"\\u0000\"",
					  "/**/1"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(skip(bad[i], strlen(bad[i])), -EBADMSG, "%s", bad[i]);
	cr_expect_eq(skip("1\0", 2), -EBADMSG);
	cr_expect_eq(skip("\"a\0b\"", 5), -EBADMSG);
}

static bool has(const char *text, size_t len, const char *what)
{
	return memmem(text, len, what, strlen(what)) != NULL;
}

/* Another parser as the judge, on mutations of a document. The two differ on purpose in numbers that overflow. */
Test(json, accepts_what_another_parser_accepts)
{
	static const char seedtext[] =
		"{\"a\":[1,-2.5e3,true,null,\"\\u00e9\\n\xc3\xa9\"],\"b\":{\"c\":{},\"d\":[[],0]},\"e\":\"\"}";
	static const char alphabet[] = "{}[]\",:\\u0019-+.eEtrfalsn \n\x80\xc3";
	uint64_t seed = 11;
	unsigned accepted = 0;
	for (int round = 0; round < 100000; round++) {
		char text[sizeof(seedtext)];
		size_t len = sizeof(seedtext) - 1;
		memcpy(text, seedtext, len);
		for (uint64_t n = sample_below(&seed, 3); n-- > 0;)
			text[sample_below(&seed, len)] = alphabet[sample_below(&seed, sizeof(alphabet) - 1)];
		json_error_t error;
		json_t *tree = json_loadb(text, len, JSON_DECODE_ANY, &error);
		bool overflow = !tree && (has(error.text, strlen(error.text), "too big") ||
					  has(error.text, strlen(error.text), "overflow"));
		int rc = skip(text, len);
		if (!overflow)
			cr_assert_eq(rc == 0, tree != NULL, "%.*s: %d, %s", (int)len, text, rc, error.text);
		accepted += rc == 0;
		json_decref(tree);
	}
	cr_assert_gt(accepted, 10000);
	cr_assert_lt(accepted, 90000);
}

Test(json, strings_come_back_as_they_were)
{
	uint64_t seed = 3;
	for (int round = 0; round < 2000; round++) {
		char text[65], back[65];
		size_t len = sample_below(&seed, 64);
		struct wbuf out = {0};
		struct jin in;
		struct err err = {""};
		for (size_t i = 0; i < len; i++)
			text[i] = (char)(1 + sample_below(&seed, 127));
		text[len] = 0;
		jout_string(&out, text);
		jin_open(&in, out.data, out.len, "test", &err);
		jin_string(&in, back, sizeof(back));
		cr_assert_eq(jin_close(&in), 0, "%s", err.text);
		cr_assert_str_eq(text, back);
		wbuf_free(&out);
	}
}

static uint64_t number(const char *text, uint64_t max, int *rc)
{
	struct jin in;
	jin_open(&in, text, strlen(text), "test", NULL);
	uint64_t v = jin_u64(&in, max);
	*rc = jin_close(&in);
	return v;
}

Test(json, whole_numbers_are_exact)
{
	static const uint64_t some[] = {0, 1, 9, 10, 1ull << 53, (1ull << 53) + 1, INT64_MAX, UINT64_MAX};
	int rc;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		struct wbuf out = {0};
		jout_u64(&out, some[i]);
		wbuf_u8(&out, 0);
		cr_assert_eq(number((const char *)out.data, UINT64_MAX, &rc), some[i]);
		cr_assert_eq(rc, 0);
		wbuf_free(&out);
	}
	cr_assert_eq(number("18446744073709551616", UINT64_MAX, &rc), 0);
	cr_assert_eq(rc, -EBADMSG);
	cr_assert_eq(number("101", 100, &rc), 0);
	cr_assert_eq(rc, -EBADMSG);
}

Test(json, a_failure_names_its_path_once_and_for_all)
{
	static const char text[] = "{\"files\":[1,{\"pieces\":[{},{\"e\":\"x\"}]}]}";
	static const char *const files[] = {"files", NULL}, *const pieces[] = {"pieces", NULL},
				 *const e[] = {"e", NULL};
	struct jin in;
	struct err err = {""};
	uint32_t seen[3] = {0};
	jin_open(&in, text, strlen(text), "test", &err);
	jin_object(&in);
	cr_assert_eq(jin_member(&in, files, &seen[0]), 0);
	jin_array(&in);
	cr_assert(jin_element(&in));
	jin_skip(&in);
	cr_assert(jin_element(&in));
	jin_object(&in);
	cr_assert_eq(jin_member(&in, pieces, &seen[1]), 0);
	jin_array(&in);
	cr_assert(jin_element(&in));
	jin_skip(&in);
	cr_assert(jin_element(&in));
	jin_object(&in);
	cr_assert_eq(jin_member(&in, e, &seen[2]), 0);
	cr_assert_eq(jin_u64(&in, 1), 0);
	cr_assert_str_eq(err.text, "test: files[1].pieces[1].e: is not a whole number from 0 (byte 31)");
	jin_fail(&in, "something else");
	cr_assert(!jin_element(&in) && !jin_object(&in) && jin_member(&in, e, &seen[2]) == -1);
	cr_assert_eq(jin_close(&in), -EBADMSG);
	cr_assert_str_eq(err.text, "test: files[1].pieces[1].e: is not a whole number from 0 (byte 31)");
}

Test(json, a_key_that_a_terminal_would_obey_is_defused_in_messages)
{
	static const char text[] = "{\"\\u001b[31m\":x}";
	struct err err = {""};
	struct jin in;
	jin_open(&in, text, strlen(text), "test", &err);
	jin_skip(&in);
	cr_assert_neq(jin_close(&in), 0);
	cr_assert_null(strchr(err.text, 0x1b), "%s", err.text);
}
