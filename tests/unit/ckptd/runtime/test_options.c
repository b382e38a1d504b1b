#include "runtime/options.h"

#include "arena/memory.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sources *sources;
static struct config config;
static struct policy policy;
static struct err err;

static void setup(void)
{
	for (const struct setting *s = settings; s->key; s++)
		unsetenv(s->env);
	unsetenv("XDG_RUNTIME_DIR");
	setenv("CKPT_CONFIG", "/dev/null", 1);
	err = (struct err){{0}};
}

static void teardown(void)
{
	sources_free(sources);
}

TestSuite(options, .init = setup, .fini = teardown);

static int parse(int argc, char **argv)
{
	sources_free(sources);
	sources = NULL;
	int rc = options_parse(argc, argv, &sources, &err);
	if (!rc) {
		sources_fill(sources, SCOPE_NODE, NULL, &config);
		sources_fill(sources, SCOPE_JOB, NULL, &policy);
	}
	return rc;
}

#define PARSE(...)                                                                                                     \
	({                                                                                                             \
		char *argv[] = {(char *)"ckptd", __VA_ARGS__, NULL};                                                   \
		parse((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv);                                                \
	})

static int parse_none(void)
{
	char *argv[] = {(char *)"ckptd", NULL};
	return parse(1, argv);
}

Test(options, without_any_it_is_a_daemon_in_memory)
{
	cr_assert_eq(parse_none(), 0);
	cr_assert_null(config.store);
	cr_assert_str_eq(config.socket, "/run/ckptd.sock");
	cr_assert(policy.verify);
	cr_assert_gt(config.memory_limit, 1u << 20);
	cr_assert_gt(strlen(config.node), 0u);
}

Test(options, the_environment_stands_in_and_the_command_line_wins)
{
	setenv("CKPT_STORE", "/store", 1);
	setenv("XDG_RUNTIME_DIR", "/xdg", 1);
	cr_assert_eq(parse_none(), 0);
	cr_assert_str_eq(config.store, "/store");
	cr_assert_str_eq(config.socket, "/xdg/ckptd.sock");
	setenv("CKPT_SOCKET", "/sock", 1);
	cr_assert_eq(PARSE((char *)"--store", (char *)"/other"), 0);
	cr_assert_str_eq(config.store, "/other");
	cr_assert_str_eq(config.socket, "/sock");
	cr_assert_eq(PARSE((char *)"--socket=/mine"), 0);
	cr_assert_str_eq(config.socket, "/mine");
}

Test(options, a_size_that_is_none_is_refused_with_what_it_takes)
{
	static const char *const wrong[] = {"", "0", "8g"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(PARSE((char *)"--memory-limit", (char *)wrong[i]), -EINVAL, "'%s' is taken", wrong[i]);
		cr_assert(strstr(err.text, "--memory-limit") && strstr(err.text, "8G"), "%s", err.text);
	}
}

Test(options, times_are_milliseconds)
{
	cr_assert_eq(PARSE((char *)"--save-timeout", (char *)"5", (char *)"--join-timeout", (char *)"6",
			   (char *)"--stall-timeout", (char *)"7", (char *)"--hang-timeout", (char *)"0",
			   (char *)"--linger", (char *)"9"),
		     0);
	cr_assert_eq(policy.save_timeout_ms, 5u);
	cr_assert_eq(policy.join_timeout_ms, 6u);
	cr_assert_eq(policy.stall_timeout_ms, 7u);
	cr_assert_eq(policy.hang_timeout_ms, 0u);
	cr_assert_eq(policy.linger_ms, 9u);
}

Test(options, a_time_that_is_none_is_refused_by_name)
{
	static const char *const wrong[] = {"", "-1", "1w", "x", "1000000001", "99999999999999999999"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(PARSE((char *)"--linger", (char *)wrong[i]), -EINVAL, "'%s' is taken", wrong[i]);
		cr_assert(strstr(err.text, "--linger"), "%s", err.text);
	}
}

Test(options, a_node_name_that_no_manifest_may_hold_is_refused)
{
	cr_assert_eq(PARSE((char *)"--node", (char *)"a/b"), -EINVAL);
	cr_assert_eq(PARSE((char *)"--node", (char *)"n0"), 0);
	cr_assert_str_eq(config.node, "n0");
}

Test(options, huge_pages_have_three_words)
{
	cr_assert_eq(parse_none(), 0);
	cr_assert_eq(config.huge_pages, HUGE_PAGES_AUTO);
	cr_assert_eq(PARSE((char *)"--huge-pages", (char *)"transparent"), 0);
	cr_assert_eq(config.huge_pages, HUGE_PAGES_TRANSPARENT);
	cr_assert_eq(PARSE((char *)"--huge-pages=never"), 0);
	cr_assert_eq(config.huge_pages, HUGE_PAGES_NEVER);
	cr_assert_eq(PARSE((char *)"--huge-pages=always"), -EINVAL);
	cr_assert(strstr(err.text, "--huge-pages") && strstr(err.text, "transparent"), "%s", err.text);
}

Test(options, what_is_no_option_is_refused)
{
	cr_assert_eq(PARSE((char *)"--nonsense"), -EINVAL);
	cr_assert_eq(PARSE((char *)"--store"), -EINVAL);
	cr_assert_eq(PARSE((char *)"argument"), -EINVAL);
	cr_assert(strstr(err.text, "argument"), "%s", err.text);
}

Test(options, no_verify_turns_the_read_back_off)
{
	cr_assert_eq(PARSE((char *)"--no-verify"), 0);
	cr_assert(!policy.verify);
}

Test(options, a_file_counts_less_than_the_environment_and_that_less_than_a_flag)
{
	char name[] = "/tmp/ckpt-options-XXXXXX";
	static const char text[] = "[node]\nstore = /file\nmemory-limit = 1G\n[job]\nlinger = 1s\n";
	int fd = mkstemp(name);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	setenv("CKPT_STORE", "/variable", 1);
	setenv("CKPT_LINGER", "2s", 1);
	cr_assert_eq(PARSE((char *)"--config", name, (char *)"--linger", (char *)"3s"), 0, "%s", err.text);
	unlink(name);
	cr_assert_eq(config.memory_limit, 1u << 30);
	cr_assert_str_eq(config.store, "/variable");
	cr_assert_eq(policy.linger_ms, 3000u);
}

Test(options, yes_and_no_have_a_flag_each)
{
	setenv("CKPT_VERIFY", "no", 1);
	cr_assert_eq(parse_none(), 0);
	cr_assert(!policy.verify);
	cr_assert_eq(PARSE((char *)"--verify"), 0);
	cr_assert(policy.verify);
}
