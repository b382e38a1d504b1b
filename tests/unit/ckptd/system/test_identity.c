#include "system/identity.h"

#include "config/file.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sources *sources;
static struct identity id;
static struct share share;
static struct err err;

static void setup(void)
{
	for (const struct setting *s = settings; s->key; s++)
		unsetenv(s->env);
	id = (struct identity){.uid = 1001, .name = "ann", .group_names = {"ann", "ml-team"}, .ngroups = 2};
}

static void teardown(void)
{
	sources_free(sources);
}

TestSuite(identity, .init = setup, .fini = teardown);

static int asked(const char *config)
{
	sources_free(sources);
	cr_assert_eq(sources_new(&sources, &err), 0);
	cr_assert_eq(file_parse(sources, "f.conf", config, strlen(config), &err), 0, "%s", err.text);
	return identity_share(&id, sources, &share, &err);
}

Test(identity, everybody_may_by_default)
{
	cr_assert_eq(asked(""), 0);
	cr_assert_eq(share.memory_limit, 0);
}

Test(identity, who_is_shut_out_is_told_where)
{
	cr_assert_eq(asked("[user]\nallow = no\n"), -EPERM);
	cr_assert_str_eq(err.text, "user ann may not use this service (f.conf:2: allow = no)");
}

Test(identity, the_name_wins_over_the_group_and_that_over_a_pattern)
{
	cr_assert_eq(asked("[user ann]\nallow = yes\n[user @ml-*]\nallow = no\n"), 0);
	cr_assert_eq(asked("[user @ml-team]\nallow = yes\n[user a*]\nallow = no\n[user]\nallow = no\n"), 0);
	cr_assert_eq(asked("[user @ml-team]\nallow = no\n[user a*]\nallow = yes\n"), -EPERM);
	cr_assert_eq(asked("[user a*]\nallow = no\n[user]\nallow = yes\n"), -EPERM);
	cr_assert_eq(asked("[user @other]\nallow = no\n[user bob]\nallow = no\n"), 0);
}

Test(identity, limits_come_from_the_closest_section_that_names_them)
{
	cr_assert_eq(asked("[user]\nmemory-limit = 1G\nwrite-bandwidth = 1M\n[user @ml-team]\nmemory-limit = 8G\n"
			   "[user ann]\nread-bandwidth = 2M\n"),
		     0);
	cr_assert_eq(share.memory_limit, 8ull << 30);
	cr_assert_eq(share.write_bandwidth, 1u << 20);
	cr_assert_eq(share.read_bandwidth, 2u << 20);
}

Test(identity, accounts_of_the_system_must_be_named)
{
	id.uid = 33;
	cr_assert_eq(asked(""), -EPERM);
	cr_assert(strstr(err.text, "[user ann]"), "%s", err.text);
	cr_assert_eq(asked("[user]\nallow = yes\n[user a*]\nallow = yes\n"), -EPERM);
	cr_assert_eq(asked("[user ann]\nallow = yes\n"), 0);
	cr_assert_eq(asked("[user @ml-team]\nallow = yes\n"), 0);
}

Test(identity, an_account_that_is_not_there_is_named)
{
	cr_assert_eq(identity_find(3999999999u, &id, &err), -ENOENT);
	cr_assert(strstr(err.text, "3999999999"));
}

Test(identity, ones_own_is_found)
{
	cr_assert_eq(identity_find(0, &id, &err), 0, "%s", err.text);
	cr_assert_str_eq(id.name, "root");
	cr_assert_str_eq(id.group_names[0], "root");
}
