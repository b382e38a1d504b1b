#include "format/tensor/names.h"

#include <criterion/criterion.h>

#include <string.h>

static const char *repeat(char c, size_t n)
{
	static char text[1024];
	memset(text, c, n);
	text[n] = 0;
	return text;
}

Test(names, plain_names_pass)
{
	static const char *const good[] = {"a", "job-1", "_x", "node.example.org", "A..B", "0"};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_assert_eq(name_check("job", good[i], NAME_JOB_MAX, NULL), 0, "%s", good[i]);
	cr_assert_eq(name_check("job", repeat('x', NAME_JOB_MAX - 1), NAME_JOB_MAX, NULL), 0);
}

Test(names, names_that_could_leave_the_root_are_refused)
{
	static const char *const bad[] = {"",     ".",   "..",  ".hidden",  "-rf",  "a/b", "/",
					  "../x", "a b", "a\n", "\xc3\xa4", "a\\b", "a:b", "a*"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = {0};
		cr_assert_eq(name_check("job", bad[i], NAME_JOB_MAX, &err), -EINVAL, "%s", bad[i]);
		cr_assert(strstr(err.text, "job name"), "%s", err.text);
		cr_assert_eq(name_check_file(bad[i], &err), -EINVAL, "%s", bad[i]);
	}
	cr_assert_eq(name_check("job", repeat('x', NAME_JOB_MAX), NAME_JOB_MAX, NULL), -EINVAL);
	cr_assert_eq(name_check_file(repeat('x', NAME_FILE_MAX), NULL), -EINVAL);
	cr_assert_eq(name_check_file(repeat('x', NAME_FILE_MAX - 1), NULL), 0);
}

Test(names, a_message_never_repeats_control_characters)
{
	struct err err = {0};
	cr_assert_eq(name_check("job", "a\x1b[2J\n", NAME_JOB_MAX, &err), -EINVAL);
	for (const char *c = err.text; *c; c++)
		cr_assert(*c >= ' ' && *c <= '~', "%s", err.text);
}

Test(names, a_group_can_not_pose_as_the_part_of_another)
{
	char part[NAME_FILE_MAX], posing[NAME_FILE_MAX];
	name_data(0, 1, "params", 1, part);
	name_data(0, 1, "params.part-0001", 0, posing);
	cr_assert_str_eq(part, posing);
	cr_assert_eq(name_check_group("params.part-0001", NULL), -EINVAL);
	cr_assert_eq(name_check_group("x.part-9999", NULL), -EINVAL);
	cr_assert_eq(name_check_group("params.part-001", NULL), 0);
	cr_assert_eq(name_check_group("params.part-000a", NULL), 0);
	cr_assert_eq(name_check_group("part-0001", NULL), 0);
	cr_assert_eq(name_check_group("a/b", NULL), -EINVAL);
}

Test(names, tensor_names_are_utf8_without_control_characters)
{
	static const char *const good[] = {
		"layers.0/attn:q proj", "\xc3\xa4",   "\xe2\x82\xac", "\xf0\x9f\x98\x80", "..", "-x",
		"\xf4\x8f\xbf\xbf",     "__metadata", "\xed\x9f\xbf", "\xc2\xa0"};
	static const char *const bad[] = {
		"",
		"__metadata__",
		"a\tb",
		"a\x7f",
		"\xc2\x85", /* a C1 control */
		"\xff",
		"\x80",
		"\xc3", /* cut */
		"\xe2\x82",
		"\xf0\x9f\x98",
		"\xc0\xaf", /* overlong */
		"\xe0\x80\xaf",
		"\xf0\x80\x80\xaf",
		"\xed\xa0\x80",     /* surrogate */
		"\xf4\x90\x80\x80", /* above U+10FFFF */
		"\xf8\x88\x80\x80\x80",
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_assert_eq(name_check_tensor(good[i], NULL), 0, "%zu", i);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(name_check_tensor(bad[i], NULL), -EINVAL, "%zu", i);
	cr_assert_eq(name_check_tensor(repeat('x', NAME_TENSOR_MAX - 1), NULL), 0);
	cr_assert_eq(name_check_tensor(repeat('x', NAME_TENSOR_MAX), NULL), -EINVAL);
}

Test(names, checkpoints_order_by_epoch_then_step)
{
	struct step_id old = {.step = 900, .epoch = 1}, rolled_back = {.step = 100, .epoch = 2},
		       next = {.step = 101, .epoch = 2};
	cr_assert_lt(step_compare(old, rolled_back), 0);
	cr_assert_lt(step_compare(rolled_back, next), 0);
	cr_assert_gt(step_compare(next, old), 0);
	cr_assert_eq(step_compare(old, old), 0);
}

Test(names, directory_names_parse_back)
{
	static const struct step_id ids[] = {
		{0, 0}, {1000, 3}, {STEP_MAX, EPOCH_MAX}, {7, EPOCH_MAX + 1}, {7, UINT32_MAX}};
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		char dir[NAME_DIR_MAX];
		struct step_id back;
		name_dir(ids[i], dir);
		cr_assert_eq(name_parse_dir(dir, &back), 0, "%s", dir);
		cr_assert_eq(step_compare(ids[i], back), 0, "%s", dir);
	}
	char dir[NAME_DIR_MAX];
	name_dir((struct step_id){.step = 1000, .epoch = 3}, dir);
	cr_assert_str_eq(dir, "step-000000001000.e0003");
}

Test(names, what_is_under_work_has_a_name_of_its_maker_and_is_no_checkpoint)
{
	char a[NAME_WORK_MAX], b[NAME_WORK_MAX];
	struct step_id back;
	name_work((struct step_id){.step = 1000, .epoch = 3}, 31, a);
	cr_assert_str_eq(a, ".writing-step-000000001000.e0003-1f");
	cr_assert_lt(name_parse_dir(a, &back), 0);
	name_work((struct step_id){.step = 1000, .epoch = 3}, 32, b);
	cr_assert_str_neq(a, b);
	name_work((struct step_id){STEP_MAX, UINT32_MAX}, UINT64_MAX, a);
	cr_assert(strstr(a, "-ffffffffffffffff"), "the longest fits");
}

Test(names, directory_names_that_are_not_canonical_are_refused)
{
	static const char *const bad[] = {
		"",
		"step-",
		"step-1000.e0003",
		"step-0000000001000.e0003",
		"step-000000001000",
		"step-000000001000.e",
		"step-000000001000.e003",
		"step-000000001000.e00003",
		"step-000000001000.e4294967296",
		"step-000000001000.e0003 ",
		"step-000000001000.e0003.tmp",
		"step-00000000100a.e0003",
		"step-+00000001000.e0003",
		"step-000000001000.e-003",
		"Step-000000001000.e0003",
		".step-000000001000.e0003",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct step_id id = {.step = 5, .epoch = 6};
		cr_assert_eq(name_parse_dir(bad[i], &id), -EINVAL, "%s", bad[i]);
		cr_assert(id.step == 5 && id.epoch == 6);
	}
}

Test(names, file_names_are_those_of_the_format)
{
	char name[NAME_FILE_MAX];
	name_data(0, 8, "params", 0, name);
	cr_assert_str_eq(name, "rank-00000-of-00008.params.safetensors");
	name_data(3, 8, "params", 1, name);
	cr_assert_str_eq(name, "rank-00003-of-00008.params.part-0001.safetensors");
	name_sidecar(3, 8, "params", 0, name);
	cr_assert_str_eq(name, "rank-00003-of-00008.params.xxh");
	name_sidecar(3, 8, "params", 12, name);
	cr_assert_str_eq(name, "rank-00003-of-00008.params.part-0012.xxh");
	name_node("gpu-17", name);
	cr_assert_str_eq(name, "node-gpu-17.json");
	name_notice("gpu-17", name);
	cr_assert_str_eq(name, "node-gpu-17.packed.safetensors");
}

Test(names, the_longest_names_fit_and_pass_their_own_check)
{
	char name[NAME_FILE_MAX];
	name_data(RANK_MAX - 1, RANK_MAX, repeat('g', NAME_GROUP_MAX - 1), PART_MAX - 1, name);
	cr_assert(strstr(name, ".part-9999.safetensors"));
	cr_assert_eq(name_check_file(name, NULL), 0);
	name_node(repeat('n', NAME_NODE_MAX - 1), name);
	cr_assert(strstr(name, ".json"));
	cr_assert_eq(name_check_file(name, NULL), 0);
}

Test(names, tags_are_names_that_mean_no_checkpoint_otherwise)
{
	static const char *const good[] = {"a", "_", "best", "v1.2-rc_3", "Step-1", "healthy", "latest2"};
	static const char *const bad[] = {"",    "1",  "1x",     "9.e1",  ".a",     "-a",      "a b",
					  "a/b", "..", "latest", "step-", "step-1", "\xc3\xbc"};
	char file[NAME_FILE_MAX], tag[NAME_TAG_MAX] = "untouched";
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_expect_eq(name_check_tag(good[i], NULL), 0, "%s", good[i]);
		name_tag(good[i], file);
		cr_expect_eq(name_parse_tag(file, tag), 0, "%s", file);
		cr_expect_str_eq(tag, good[i]);
		cr_expect_eq(name_check_file(file, NULL), 0);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(name_check_tag(bad[i], NULL), -EINVAL, "%s", bad[i]);
		name_tag(bad[i], file);
		cr_expect_eq(name_parse_tag(file, tag), -EINVAL, "%s", file);
	}
	cr_expect_eq(name_check_tag(repeat('t', NAME_TAG_MAX - 1), NULL), 0);
	cr_expect_eq(name_check_tag(repeat('t', NAME_TAG_MAX), NULL), -EINVAL);
	name_tag(repeat('t', NAME_TAG_MAX), file);
	cr_expect_eq(name_parse_tag(file, tag), -EINVAL);
	cr_expect_eq(name_parse_tag("tag-a.jsonx", tag), -EINVAL);
	cr_expect_eq(name_parse_tag("tag.json", tag), -EINVAL);
	cr_expect_eq(name_parse_tag("xtag-a.json", tag), -EINVAL);
	cr_expect_str_eq(tag, "latest2");
}

Test(names, healthy_is_a_tag_that_is_not_given_any_more)
{
	struct err err;
	cr_expect_eq(name_check_tag("healthy", NULL), 0);
	cr_expect_eq(name_check_new_tag("healthy", &err), -EINVAL);
	cr_expect(strstr(err.text, "already means a checkpoint"), "%s", err.text);
	cr_expect_eq(name_check_new_tag("latest", NULL), -EINVAL);
	cr_expect_eq(name_check_new_tag("healthy2", NULL), 0);
}
