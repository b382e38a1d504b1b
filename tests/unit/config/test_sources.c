#include "config/file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sources *s;
static struct err err;

static void setup(void)
{
	for (const struct setting *setting = settings; setting->key; setting++)
		unsetenv(setting->env);
	cr_assert_eq(sources_new(&s, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	sources_free(s);
}

TestSuite(sources, .init = setup, .fini = teardown);

static const struct given *find(const char *key, const char *job)
{
	return sources_find(s, setting_find(SCOPE_JOB, key), job);
}

static int say(enum origin origin, const char *name, const char *pattern, const char *key, const char *text)
{
	struct place place = {.origin = origin, .name = name, .line = 7, .pattern = pattern};
	return sources_add(s, setting_find(SCOPE_JOB, key), &place, text, &err);
}

Test(sources, without_any_the_defaults_count)
{
	struct config config;
	struct policy policy;
	char from[64];
	sources_fill(s, SCOPE_NODE, NULL, &config);
	sources_fill(s, SCOPE_JOB, "main", &policy);
	cr_assert_null(config.store);
	cr_assert_gt(config.memory_limit, 1u << 20);
	cr_assert_eq(policy.persist_every, 1u);
	cr_assert_eq(policy.save_timeout_ms, 120000u);
	cr_assert(policy.verify);
	cr_assert_str_eq(given_from(find("linger", NULL), from, sizeof(from)), "default");
}

/* Said in the wrong order, so that the order of reading cannot be what decides. */
Test(sources, a_flag_wins_over_the_environment_and_that_over_a_file)
{
	char from[64];
	cr_assert_eq(say(ORIGIN_FLAG, "--linger", NULL, "linger", "3s"), 0);
	cr_assert_eq(say(ORIGIN_FILE, "f", "main", "linger", "1s"), 0);
	setenv("CKPT_LINGER", "2s", 1);
	cr_assert_eq(sources_environment(s, &err), 0);
	cr_assert_eq(find("linger", "main")->value.number, 3000u);
	cr_assert_str_eq(given_from(find("linger", "main"), from, sizeof(from)), "--linger");
	cr_assert_eq(say(ORIGIN_FILE, "f", NULL, "hang-timeout", "1s"), 0);
	cr_assert_str_eq(given_from(find("hang-timeout", NULL), from, sizeof(from)), "f:7");
	setenv("CKPT_HANG_TIMEOUT", "2s", 1);
	cr_assert_eq(sources_environment(s, &err), 0);
	cr_assert_str_eq(given_from(find("hang-timeout", NULL), from, sizeof(from)), "CKPT_HANG_TIMEOUT");
}

Test(sources, a_job_by_name_wins_over_a_pattern_and_that_over_all_jobs)
{
	cr_assert_eq(say(ORIGIN_FILE, "f", "main", "linger", "3s"), 0);
	cr_assert_eq(say(ORIGIN_FILE, "f", "m*", "linger", "2s"), 0);
	cr_assert_eq(say(ORIGIN_FILE, "f", "", "linger", "1s"), 0);
	cr_assert_eq(find("linger", "main")->value.number, 3000u);
	cr_assert_eq(find("linger", "mine")->value.number, 2000u);
	cr_assert_eq(find("linger", "other")->value.number, 1000u);
	cr_assert_eq(find("linger", NULL)->value.number, 1000u);
}

Test(sources, among_patterns_the_later_counts)
{
	cr_assert_eq(say(ORIGIN_FILE, "f", "ma?n", "linger", "1s"), 0);
	cr_assert_eq(say(ORIGIN_FILE, "f", "m*", "linger", "2s"), 0);
	cr_assert_eq(find("linger", "main")->value.number, 2000u);
	cr_assert_eq(find("linger", "m")->value.number, 2000u);
}

Test(sources, a_later_file_wins_over_an_earlier_one)
{
	cr_assert_eq(say(ORIGIN_FILE, "system", NULL, "linger", "1s"), 0);
	cr_assert_eq(say(ORIGIN_FILE, "user", NULL, "linger", "2s"), 0);
	cr_assert_eq(find("linger", NULL)->value.number, 2000u);
}

Test(sources, an_empty_variable_counts_as_not_set)
{
	setenv("CKPT_LINGER", "", 1);
	cr_assert_eq(sources_environment(s, &err), 0);
	cr_assert_eq(find("linger", NULL)->origin, ORIGIN_DEFAULT);
}

Test(sources, a_bad_variable_is_named)
{
	setenv("CKPT_PERSIST_EVERY", "often", 1);
	cr_assert_eq(sources_environment(s, &err), -EINVAL);
	cr_assert(!strncmp(err.text, "CKPT_PERSIST_EVERY: \"often\"", 27), "%s", err.text);
}

Test(sources, their_number_is_bounded)
{
	char name[32];
	int rc = 0;
	for (int i = 0; !rc && i < SOURCES_MAX; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		rc = say(ORIGIN_FILE, name, NULL, "linger", "1s");
	}
	cr_assert_eq(rc, -EINVAL);
}
