#include "registry/secret_private.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char dir[SCRATCH_MAX], path[SCRATCH_MAX + 8], secret[SECRET_MAX];
static struct err err;

static void put(const char *text, size_t len, mode_t mode)
{
	scratch_write(dir, "secret", text, len);
	cr_assert_eq(chmod(path, mode), 0);
}

static void begin(void)
{
	scratch_new(dir);
	snprintf(path, sizeof(path), "%s/secret", dir);
}

static void end(void)
{
	scratch_remove(dir);
}

TestSuite(secret, .init = begin, .fini = end);

Test(secret, one_line)
{
	static const char *const same[] = {"pass word", "pass word\n", "pass word\r\n"};
	for (size_t i = 0; i < 3; i++) {
		put(same[i], strlen(same[i]), 0600);
		cr_assert_eq(secret_read(path, secret, &err), 0, "%s", err.text);
		cr_assert_str_eq(secret, "pass word");
	}
}

Test(secret, what_is_no_line)
{
	char big[SECRET_MAX + 1];
	memset(big, 'x', sizeof(big));
	const struct {
		const char *text;
		size_t len;
	} wrong[] = {{"", 0},   {"\n", 1}, {"a\nb\n", 4}, {"a\0b", 3}, {big, SECRET_MAX}, {big, SECRET_MAX + 1},
		     {"\na", 2}};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		put(wrong[i].text, wrong[i].len, 0600);
		cr_assert_eq(secret_read(path, secret, &err), -EINVAL, "number %zu is taken", i);
		cr_assert(strstr(err.text, path) && strstr(err.text, "is not one line"), "%s", err.text);
	}
}

Test(secret, it_is_closed_to_others)
{
	static const mode_t open_to_others[] = {0640, 0604, 0620, 0601};
	for (size_t i = 0; i < 4; i++) {
		put("x", 1, open_to_others[i]);
		cr_assert_eq(secret_read(path, secret, &err), -EACCES);
		cr_assert(strstr(err.text, "chmod 600"), "%s", err.text);
		cr_assert_eq(secret_check(path, &err), -EACCES);
	}
	put("x", 1, 0400);
	cr_assert_eq(secret_check(path, &err), 0, "%s", err.text);
}

Test(secret, what_is_no_file)
{
	cr_assert_eq(secret_read(path, secret, &err), -ENOENT);
	cr_assert(strstr(err.text, path), "%s", err.text);
	cr_assert_eq(secret_check(dir, &err), -EINVAL);
}
