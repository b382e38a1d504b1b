#include "config/value.h"

#include <criterion/criterion.h>
#include <string.h>

static struct value value;
static struct err err;

static int parse(enum setting_scope scope, const char *key, const char *text)
{
	return value_parse(setting_find(scope, key), text, &value, &err);
}

static const char *again(enum setting_scope scope, const char *key)
{
	static char text[SETTING_TEXT_MAX];
	return value_print(setting_find(scope, key), &value, text, sizeof(text));
}

Test(value, sizes_have_binary_suffixes)
{
	static const struct {
		const char *text, *again;
		uint64_t bytes;
	} sizes[] = {{"1", "1", 1},
		     {"3K", "3K", 3ull << 10},
		     {"512M", "512M", 512ull << 20},
		     {"8G", "8G", 8ull << 30},
		     {"2T", "2T", 2ull << 40},
		     {"2048M", "2G", 2ull << 30},
		     {"1.5G", "1536M", 1536ull << 20},
		     {"0.25K", "256", 256}};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_assert_eq(parse(SCOPE_NODE, "memory-limit", sizes[i].text), 0, "%s", err.text);
		cr_assert_eq(value.number, sizes[i].bytes);
		cr_assert_str_eq(again(SCOPE_NODE, "memory-limit"), sizes[i].again);
	}
}

Test(value, a_size_that_is_none_is_refused_with_what_is_allowed)
{
	static const char *const wrong[] = {"",
					    "0",
					    "-1",
					    "+1",
					    "8g",
					    "8GB",
					    "G",
					    " 8",
					    "x8",
					    "8 G",
					    "8.5",
					    "8.G",
					    ".5G",
					    "1.0000001G",
					    "0.0001K",
					    "0x8",
					    "18446744073709551616",
					    "16777217T",
					    "16777215.9999999T"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(parse(SCOPE_NODE, "memory-limit", wrong[i]), -EINVAL, "'%s' is taken", wrong[i]);
		cr_assert(strstr(err.text, "8G"), "%s", err.text);
	}
}

Test(value, a_limit_is_nothing_or_at_least_what_makes_sense)
{
	cr_assert_eq(parse(SCOPE_JOB, "write-bandwidth", "0"), 0);
	cr_assert_str_eq(again(SCOPE_JOB, "write-bandwidth"), "0");
	cr_assert_eq(parse(SCOPE_JOB, "write-bandwidth", "64K"), 0);
	cr_assert_eq(parse(SCOPE_JOB, "write-bandwidth", "63K"), -EINVAL);
	cr_assert(strstr(err.text, "64K") && strstr(err.text, "or 0"), "%s", err.text);
	cr_assert_eq(parse(SCOPE_JOB, "write-bandwidth", "2000T"), -EINVAL);
}

Test(value, times_have_units_and_are_milliseconds_without)
{
	static const struct {
		const char *text, *again;
		uint64_t ms;
	} times[] = {{"5", "5ms", 5},        {"5ms", "5ms", 5},       {"30s", "30s", 30000},
		     {"5m", "5m", 300000},   {"2h", "2h", 7200000},   {"120000", "2m", 120000},
		     {"90s", "90s", 90000},  {"7d", "7d", 604800000}, {"0", "0", 0},
		     {"1.5m", "90s", 90000}, {"0.25s", "250ms", 250}, {"1.250s", "1250ms", 1250}};
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		cr_assert_eq(parse(SCOPE_JOB, "linger", times[i].text), 0, "%s", err.text);
		cr_assert_eq(value.number, times[i].ms);
		cr_assert_str_eq(again(SCOPE_JOB, "linger"), times[i].again);
	}
	static const char *const wrong[] = {
		"",     "-1",  "1w",      "s",   "1 s", "1000000001", "99999999999999999999",
		"400h", "0.5", "0.0001s", "1.s", ".5s", "1.5.5s"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_eq(parse(SCOPE_JOB, "linger", wrong[i]), -EINVAL, "'%s' is taken", wrong[i]);
}

Test(value, a_time_by_which_something_is_deleted_needs_its_unit)
{
	static const char *const keys[] = {"keep-within", "collect-after", "scrub-interval", "lemon-window"};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		enum setting_scope scope = i ? SCOPE_NODE : SCOPE_JOB;
		cr_assert_eq(parse(scope, keys[i], "24h"), 0, "%s: %s", keys[i], err.text);
		cr_assert_eq(parse(scope, keys[i], "24"), -EINVAL, "%s", keys[i]);
		cr_assert(strstr(err.text, "with its unit"), "%s", err.text);
		cr_assert_eq(parse(scope, keys[i], "1.5"), -EINVAL, "%s", keys[i]);
	}
	cr_assert_eq(parse(SCOPE_JOB, "keep-within", "0"), 0, "%s", err.text);
}

Test(value, choices_are_named_when_another_is_given)
{
	cr_assert_eq(parse(SCOPE_JOB, "save-policy", "queue"), 0);
	cr_assert_eq(value.number, (uint64_t)SAVE_QUEUE);
	cr_assert_str_eq(again(SCOPE_JOB, "save-policy"), "queue");
	cr_assert_eq(parse(SCOPE_JOB, "save-policy", "Queue"), -EINVAL);
	cr_assert(strstr(err.text, "newest, queue, refuse"), "%s", err.text);
}

Test(value, yes_and_no_are_the_only_answers)
{
	cr_assert_eq(parse(SCOPE_JOB, "verify", "yes"), 0);
	cr_assert_eq(value.number, 1u);
	cr_assert_eq(parse(SCOPE_JOB, "verify", "no"), 0);
	cr_assert_eq(value.number, 0u);
	cr_assert_eq(parse(SCOPE_JOB, "verify", "true"), -EINVAL);
}

Test(value, counts_are_bounded)
{
	cr_assert_eq(parse(SCOPE_JOB, "save-queue", "5"), 0);
	cr_assert_eq(parse(SCOPE_JOB, "save-queue", "6"), -EINVAL);
	cr_assert_eq(parse(SCOPE_JOB, "save-queue", "0"), -EINVAL);
	cr_assert_eq(parse(SCOPE_JOB, "save-queue", "2K"), -EINVAL);
}

Test(value, paths_and_names_are_bounded)
{
	char path[256];
	memset(path, 'p', sizeof(path));
	path[107] = 0;
	cr_assert_eq(parse(SCOPE_NODE, "socket", path), 0);
	path[107] = 'p';
	path[108] = 0;
	cr_assert_eq(parse(SCOPE_NODE, "socket", path), -EINVAL);
	cr_assert_eq(parse(SCOPE_NODE, "socket", ""), -EINVAL);
	cr_assert_eq(parse(SCOPE_NODE, "name", "a/b"), -EINVAL);
	cr_assert_eq(parse(SCOPE_NODE, "name", "n-0.x"), 0);
}

Test(value, a_url_begins_with_its_scheme)
{
	cr_assert_eq(parse(SCOPE_NODE, "registry", "etcd://a:2379,b:2379/ckpt"), 0);
	cr_assert_str_eq(again(SCOPE_NODE, "registry"), "etcd://a:2379,b:2379/ckpt");
	cr_assert_eq(parse(SCOPE_NODE, "registry", "etcds://a/ckpt"), 0);
	cr_assert_eq(parse(SCOPE_NODE, "registry", "http://a:2379/ckpt"), -EINVAL);
	cr_assert(strstr(err.text, "a URL such as etcd://"), "%s", err.text);
	cr_assert_eq(parse(SCOPE_NODE, "registry", ""), -EINVAL);
	cr_assert_eq(parse(SCOPE_NODE, "registry-lease", "1s"), -EINVAL);
	cr_assert_eq(parse(SCOPE_NODE, "registry-lease", "2s"), 0);
}

Test(value, fields_take_and_give_every_type)
{
	struct config config = {0};
	struct policy policy = {0};
	cr_assert_eq(parse(SCOPE_NODE, "store", "/store"), 0);
	value_store(setting_find(SCOPE_NODE, "store"), &value, &config);
	cr_assert_str_eq(config.store, "/store");
	cr_assert_eq(parse(SCOPE_JOB, "verify", "yes"), 0);
	value_store(setting_find(SCOPE_JOB, "verify"), &value, &policy);
	cr_assert(policy.verify);
	cr_assert_eq(parse(SCOPE_JOB, "persist-every", "9"), 0);
	value_store(setting_find(SCOPE_JOB, "persist-every"), &value, &policy);
	cr_assert_eq(policy.persist_every, 9u);
	struct value back = value_load(setting_find(SCOPE_JOB, "persist-every"), &policy);
	cr_assert(value_equal(setting_find(SCOPE_JOB, "persist-every"), &value, &back));
	back.number++;
	cr_assert(!value_equal(setting_find(SCOPE_JOB, "persist-every"), &value, &back));
}
