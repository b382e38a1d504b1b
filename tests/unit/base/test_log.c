#include "base/log.h"

#include <criterion/criterion.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[4096];

/* What the body writes to stderr, in text. The pipe holds 64 KiB, so that nobody needs to read meanwhile. */
#define CAPTURED(body)                                                                                                 \
	do {                                                                                                           \
		int fds[2], old = dup(STDERR_FILENO);                                                                  \
		cr_assert_eq(pipe(fds), 0);                                                                            \
		dup2(fds[1], STDERR_FILENO);                                                                           \
		body;                                                                                                  \
		dup2(old, STDERR_FILENO);                                                                              \
		close(old);                                                                                            \
		close(fds[1]);                                                                                         \
		ssize_t n = read(fds[0], text, sizeof(text) - 1);                                                      \
		cr_assert_geq(n, 0);                                                                                   \
		text[n] = 0;                                                                                           \
		close(fds[0]);                                                                                         \
	} while (0)

static void assert_matches(const char *pattern)
{
	regex_t re;
	cr_assert_eq(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	cr_assert_eq(regexec(&re, text, 0, NULL, 0), 0, "'%s' does not match %s", text, pattern);
	regfree(&re);
}

Test(log, line_has_time_level_name_and_text)
{
	log_init("disk");
	CAPTURED(log_warn("slow by %d ms", 5));
	assert_matches("^[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} warn disk: slow by 5 ms\n$");
}

Test(log, without_a_name)
{
	log_init(NULL);
	CAPTURED(log_error("x"));
	assert_matches("^[0-9:.]+ error x\n$");
}

Test(log, level_hides_what_is_below)
{
	log_set_level(LOG_WARN);
	CAPTURED(log_info("hidden"); log_error("seen"));
	cr_assert_null(strstr(text, "hidden"));
	cr_assert_not_null(strstr(text, "seen"));
}

Test(log, environment_sets_the_level)
{
	setenv("CKPT_LOG", "debug", 1);
	log_init("x");
	cr_assert_eq(log_get_level(), LOG_DEBUG);
}

Test(log, unknown_level_is_reported)
{
	setenv("CKPT_LOG", "loud", 1);
	CAPTURED(log_init("x"));
	cr_assert_eq(log_get_level(), LOG_INFO);
	cr_assert_not_null(strstr(text, "CKPT_LOG=loud"));
}

Test(log, long_line_is_cut_and_ends)
{
	CAPTURED(log_error("%2000s", "x"));
	cr_assert_lt(strlen(text), 1025);
	cr_assert_eq(text[strlen(text) - 1], '\n');
}

Test(log, as_json_a_line_is_an_object)
{
	setenv("CKPT_LOG_FORMAT", "json", 1);
	log_init("ckptd");
	CAPTURED(log_warn("a \"b\" \\ %c m\xc3\xb6 \xff", 1));
	assert_matches("^\\{\"time\":\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z\",\"level\":\"warn\","
		       "\"program\":\"ckptd\",\"pid\":[0-9]+,"
		       "\"text\":\"a ");
	cr_assert_not_null(strstr(text, "\"text\":\"a \\\"b\\\" \\\\ \\u0001 m\xc3\xb6 ?\"}\n"), "%s", text);
}

Test(log, a_long_line_as_json_stays_whole)
{
	static char long_text[2000];
	memset(long_text, '\x01', sizeof(long_text) - 1);
	setenv("CKPT_LOG_FORMAT", "json", 1);
	log_init("ckptd");
	static char all[16384];
	int fds[2], old = dup(STDERR_FILENO);
	cr_assert_eq(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	log_error("%s", long_text);
	dup2(old, STDERR_FILENO);
	ssize_t n = read(fds[0], all, sizeof(all) - 1);
	cr_assert_gt(n, 6000);
	cr_assert_str_eq(all + n - 3, "\"}\n");
}

Test(log, an_unknown_format_is_reported)
{
	setenv("CKPT_LOG_FORMAT", "xml", 1);
	CAPTURED(log_init("x"));
	assert_matches("^[0-9:.]+ warn x: CKPT_LOG_FORMAT=xml is not one of text, json: using text\n$");
}
