#include "system/template.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct template_user ann = {"ann", "/home/ann", 1001};
static struct err err;

static const char *expanded(const char *text)
{
	static char path[64];
	cr_assert_eq(template_expand(text, &ann, path, sizeof(path), &err), 0, "%s", err.text);
	return path;
}

Test(template, each_letter_stands_for_what_is_the_users)
{
	cr_assert_str_eq(expanded("/stores/%u/%U"), "/stores/ann/1001");
	cr_assert_str_eq(expanded("%h/ckpt"), "/home/ann/ckpt");
	cr_assert_str_eq(expanded("/100%%/%u"), "/100%/ann");
	cr_assert_str_eq(expanded("/plain"), "/plain");
	cr_assert_str_eq(expanded(""), "");
}

Test(template, another_letter_is_a_mistake)
{
	char path[64];
	cr_assert_eq(template_expand("/x/%x", &ann, path, sizeof(path), &err), -EINVAL);
	cr_assert(strstr(err.text, "/x/%x"));
	cr_assert_eq(template_expand("/x/%", &ann, path, sizeof(path), &err), -EINVAL);
}

Test(template, what_does_not_fit_is_refused)
{
	char path[8];
	cr_assert_eq(template_expand("/12/%u", &ann, path, 8, &err), 0);
	cr_assert_str_eq(path, "/12/ann");
	cr_assert_eq(template_expand("/123/%u", &ann, path, 8, &err), -ENAMETOOLONG);
}

Test(template, a_name_that_leaves_its_place_is_refused)
{
	char path[64];
	static const char *const names[] = {"", ".", "..", "a/b", "../ann"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct template_user user = {names[i], "/h", 1};
		cr_assert_eq(template_expand("/s/%u", &user, path, sizeof(path), &err), -EINVAL, "'%s'", names[i]);
	}
}

Test(template, one_path_for_all_is_told_from_one_for_each)
{
	bool per_user;
	cr_assert_eq(template_check("/s/%u", &per_user, &err), 0);
	cr_assert(per_user);
	cr_assert_eq(template_check("/s/%U", &per_user, &err), 0);
	cr_assert(per_user);
	cr_assert_eq(template_check("%h", &per_user, &err), 0);
	cr_assert(per_user);
	cr_assert_eq(template_check("/s/%%u", &per_user, &err), 0);
	cr_assert_not(per_user);
	cr_assert_eq(template_check("/s/%q", &per_user, &err), -EINVAL);
}
