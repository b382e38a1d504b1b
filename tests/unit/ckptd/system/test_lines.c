#include "system/lines.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct lines lines;
static char said[8192];
static unsigned count;
static enum log_level last;

static void say(void *arg, enum log_level level, const char *text)
{
	(void)arg;
	size_t len = strlen(said);
	snprintf(said + len, sizeof(said) - len, "%s|", text);
	count++;
	last = level;
}

static void setup(void)
{
	lines = (struct lines){.len = 0};
	said[0] = '\0';
	count = 0;
}

TestSuite(lines, .init = setup);

static void feed(const char *text, uint64_t now)
{
	lines_feed(&lines, text, strlen(text), now, say, NULL);
}

Test(lines, pieces_become_lines)
{
	feed("on", CLOCK_NS_PER_S);
	feed("e\ntwo\nthr", CLOCK_NS_PER_S);
	cr_assert_str_eq(said, "one|two|");
	feed("ee\n", CLOCK_NS_PER_S);
	cr_assert_str_eq(said, "one|two|three|");
}

Test(lines, the_level_is_kept_and_the_rest_of_the_head_is_not)
{
	feed("12:34:56.789 warn ckptd: job main: late\n", CLOCK_NS_PER_S);
	cr_assert_str_eq(said, "job main: late|");
	cr_assert_eq(last, LOG_WARN);
	feed("12:34:56.789 shout ckptd: x\n", CLOCK_NS_PER_S);
	cr_assert_eq(last, LOG_INFO);
}

Test(lines, a_line_cannot_pass_for_another)
{
	feed("a\rb\033[2Jc\x7f\n", CLOCK_NS_PER_S);
	cr_assert_str_eq(said, "a?b?[2Jc?|");
}

Test(lines, a_line_without_end_is_cut)
{
	char text[5000];
	memset(text, 'x', sizeof(text));
	lines_feed(&lines, text, sizeof(text), CLOCK_NS_PER_S, say, NULL);
	feed("\nnext\n", CLOCK_NS_PER_S);
	cr_assert_eq(strlen(said), LINES_BYTES - 1 + strlen("|next|"));
}

Test(lines, too_many_are_counted_and_lost)
{
	uint64_t now = 3600 * CLOCK_NS_PER_S;
	for (int i = 0; i < LINES_BURST + 100; i++)
		feed("x\n", now);
	cr_assert(count <= LINES_BURST + 1, "%u", count);
	cr_assert(count >= LINES_BURST, "%u", count);
	unsigned lost = LINES_BURST + 100 - count;
	feed("y\n", now + CLOCK_NS_PER_S);
	char note[64];
	snprintf(note, sizeof(note), "|%u lines were too many and are lost|y|", lost);
	cr_assert(strstr(said, note), "%s", said + strlen(said) - 80);
}

Test(lines, they_come_again_with_time)
{
	uint64_t now = 3600 * CLOCK_NS_PER_S;
	for (int i = 0; i < 10 * LINES_BURST; i++)
		feed("x\n", now);
	count = 0;
	for (int i = 0; i < 10 * LINES_PER_S; i++)
		feed("x\n", now + CLOCK_NS_PER_S);
	cr_assert(count <= LINES_PER_S + 2, "%u", count);
	cr_assert(count >= LINES_PER_S - 2, "%u", count);
}
