#include "base/quoted.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void shows(const char *name, const char *text)
{
	struct quoted q = quoted(name);
	cr_assert_str_eq(q.text, text);
}

Test(quoted, a_plain_name_stands_in_quotes)
{
	shows("model.wte", "\"model.wte\"");
	shows("", "\"\"");
	shows("modèle 模型", "\"modèle 模型\"");
	shows(NULL, "NULL");
}

Test(quoted, what_would_break_the_line_is_escaped)
{
	shows("a\nb", "\"a\\nb\"");
	shows("\x1b[31mred\x7f", "\"\\x1b[31mred\\x7f\"");
	shows("say \"no\"\\", "\"say \\\"no\\\"\\\\\"");
	shows("\xff\xc3", "\"\\xff\\xc3\"");
	shows("a\xc2\x85z", "\"a\\xc2\\x85z\"");
	shows("\xed\xa0\x80", "\"\\xed\\xa0\\x80\"");
}

Test(quoted, a_long_name_is_cut_between_characters)
{
	char name[600];
	for (size_t len = 1; len < sizeof(name); len++) {
		memset(name, 'x', sizeof(name));
		name[len] = 0;
		struct quoted q = quoted(name);
		cr_assert_leq(strlen(q.text), QUOTED_TEXT_MAX + 4);
		cr_assert_eq(!!strstr(q.text, "\"..."), len > QUOTED_TEXT_MAX - 2, "%zu: %s", len, q.text);
		memset(name, 0xff, len);
		cr_assert_lt(strlen(quoted(name).text), sizeof(q.text));
	}
	/* A character of three bytes is whole, or not there. */
	for (size_t ahead = 0; ahead < 8; ahead++) {
		memset(name, 'x', ahead);
		for (size_t at = ahead; at + 3 < sizeof(name); at += 3)
			memcpy(name + at, "模\0", 4);
		struct quoted q = quoted(name);
		cr_assert(!strstr(q.text, "\\x"), "%s", q.text);
	}
}

Test(quoted, nothing_behind_the_name_is_read)
{
	for (size_t len = 0; len < 200; len++) {
		char *exact = malloc(len + 1); /* the sanitizer watches its end */
		memset(exact, 0xe6, len);
		exact[len] = 0;
		cr_assert_eq(quoted(exact).text[0], '"');
		free(exact);
	}
}

Test(quoted, a_part_of_a_text_ends_where_it_is_told)
{
	cr_assert_str_eq(quoted_part("[job a]", 4).text, "\"[job\"");
	cr_assert_str_eq(quoted_part("a", 9).text, "\"a\"");
	cr_assert_str_eq(quoted_part("a", 0).text, "\"\"");
	cr_assert_str_eq(quoted_part("m\xc3\xb6", 2).text, "\"m\\xc3\"");
}

Test(quoted, a_path_has_no_quotes_and_stays_on_its_line)
{
	char path[600];
	cr_assert_str_eq(shown_path("/data/my \"store\"").text, "/data/my \"store\"");
	cr_assert_str_eq(shown_path("/a\nb\x1b\xff\\").text, "/a\\nb\\x1b\\xff\\\\");
	cr_assert_str_eq(shown_path(NULL).text, "NULL");
	memset(path, 'x', sizeof(path));
	path[SHOWN_PATH_MAX - 1] = 0;
	cr_assert_str_eq(shown_path(path).text, path);
	path[SHOWN_PATH_MAX - 1] = 'x';
	path[sizeof(path) - 1] = 0;
	cr_assert_eq(strlen(shown_path(path).text), SHOWN_PATH_MAX + 2u);
	memset(path, 0xff, sizeof(path) - 1);
	cr_assert_leq(strlen(shown_path(path).text), SHOWN_PATH_MAX + 2u);
}
