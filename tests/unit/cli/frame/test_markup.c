#include "frame/markup.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *text;
static size_t length;
static FILE *file;

static void setup(void)
{
	file = open_memstream(&text, &length);
	cr_assert(file);
}

static void teardown(void)
{
	fclose(file);
	free(text);
}

TestSuite(markup, .init = setup, .fini = teardown);

static const char *written(void)
{
	fflush(file);
	return text;
}

Test(markup, text_never_becomes_markup)
{
	markup_text(file, "%s", "<b a=\"1\" c='2'>&amp;\x1b[31m\n");
	cr_expect_str_eq(written(), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;?[31m?");
}

Test(markup, a_character_is_whole_or_is_not_there)
{
	char much[2 * MARKUP_TEXT_MAX];
	for (size_t at = 0; at < 3; at++) { /* it is cut at each place of a character of three bytes */
		memset(much, 'x', at);
		for (size_t i = at; i + 4 < sizeof(much); i += 3)
			memcpy(much + i, "€", 4);
		markup_text(file, "%s", much);
		size_t len = strlen(written());
		cr_assert_gt(len, (size_t)MARKUP_TEXT_MAX - 5);
		cr_expect_str_eq(text + len - 3, "€");
		teardown();
		setup();
	}
}

Test(markup, a_table_has_its_caption_and_takes_the_focus)
{
	static const char *const columns[] = {"A<", ">B", NULL};
	markup_table(file, "\"x\"", columns);
	markup_cell(file, "%s", "<i>");
	markup_number(file, "%d", 7);
	markup_table_end(file);
	cr_expect(strstr(written(),
			 "tabindex=\"0\" aria-label=\"&quot;x&quot;\"><table><caption>&quot;x&quot;</caption>"),
		  "%s", text);
	cr_expect(strstr(text, "<th scope=\"col\">A&lt;</th><th scope=\"col\" class=\"n\">B</th>"), "%s", text);
	cr_expect(strstr(text, "<td>&lt;i&gt;</td><td class=\"n\">7</td></tbody></table></div>"), "%s", text);
}

Test(markup, what_is_not_known_is_a_dash)
{
	markup_ms(file, NAN);
	markup_ms(file, 1500);
	markup_ms(file, -1);
	markup_ms(file, 1e300);
	cr_expect_eq(
		strncmp(written(), "<td class=\"n\">–</td><td class=\"n\">1.5 s</td><td class=\"n\">0 ms</td>", 60), 0,
		"%s", text);
}
