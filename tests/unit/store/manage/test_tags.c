#include "scratch.h"
#include "store/manage/tags.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[SCRATCH_MAX], job[SCRATCH_MAX + 8];
static struct repo repo;
static struct err err;

static void setup(void)
{
	scratch_new(root);
	snprintf(job, sizeof(job), "%s/main", root);
	cr_assert_eq(repo_create(root, &err), 0, "%s", err.text);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(tags, .init = setup, .fini = teardown);

static int put(const char *name, uint64_t step, bool move)
{
	struct tag tag = {.job = "main", .id = {step, 1}, .tagged_at = 5};
	snprintf(tag.name, sizeof(tag.name), "%s", name);
	return tag_put(&repo, &tag, move, &err);
}

Test(tags, are_listed_by_name_and_found_by_checkpoint)
{
	AUTO_FREE struct tag_found *tags = NULL;
	size_t n;
	cr_assert_eq(tags_list(&repo, "main", &tags, &n, &err), 0, "a job that is not there has none");
	cr_assert_eq(n, 0);
	mkdir(job, 0755);
	cr_assert_eq(put("b", 2, false), 0, "%s", err.text);
	cr_assert_eq(put("c", 1, false), 0);
	cr_assert_eq(put("a", 1, false), 0);
	scratch_write(job, "tag-.json", "x", 1);
	scratch_write(job, "tag-a.json.old", "x", 1);
	scratch_write(job, ".tmp-tag-a.json.0", "x", 1);
	cr_assert_eq(tags_list(&repo, "main", &tags, &n, &err), 0);
	cr_assert_eq(n, 3);
	cr_expect_str_eq(tags[0].tag.name, "a");
	cr_expect_str_eq(tags[2].tag.name, "c");
	cr_expect_eq(tags_next(tags, n, 0, (struct step_id){1, 1}), 0);
	cr_expect_eq(tags_next(tags, n, 1, (struct step_id){1, 1}), 2);
	cr_expect_eq(tags_next(tags, n, 0, (struct step_id){1, 2}), 3);
}

Test(tags, move_only_on_request)
{
	struct tag tag;
	mkdir(job, 0755);
	cr_assert_eq(put("a", 1, false), 0, "%s", err.text);
	cr_assert_eq(put("a", 2, false), -EEXIST);
	cr_assert_eq(tag_read(&repo, "main", "a", &tag, &err), 0);
	cr_assert_eq(tag.id.step, 1);
	cr_assert_eq(put("a", 2, true), 0, "%s", err.text);
	cr_assert_eq(tag_read(&repo, "main", "a", &tag, &err), 0);
	cr_assert_eq(tag.id.step, 2);
	cr_assert_eq(tag_drop(&repo, "main", "a", &err), 0, "%s", err.text);
	cr_assert_eq(tag_drop(&repo, "main", "a", &err), -ENOENT);
	cr_assert_eq(tag_read(&repo, "main", "a", &tag, &err), -ENOENT);
}

Test(tags, names_that_lead_out_of_the_job_reach_no_file)
{
	struct tag tag;
	mkdir(job, 0755);
	scratch_write(root, "x.json", "x", 1);
	cr_expect_eq(put("../x", 1, true), -EINVAL);
	cr_expect_eq(tag_read(&repo, "main", "../x", &tag, &err), -EINVAL);
	cr_expect_eq(tag_read(&repo, "../main", "x", &tag, &err), -EINVAL);
	cr_expect_eq(tag_drop(&repo, "main", "/../../x", &err), -EINVAL);
}

Test(tags, a_damaged_one_is_listed_as_such)
{
	AUTO_FREE struct tag_found *tags = NULL;
	size_t n;
	struct tag tag;
	mkdir(job, 0755);
	cr_assert_eq(put("good", 1, false), 0);
	scratch_write(job, "tag-bad.json", "{}", 2);
	cr_assert_eq(tag_read(&repo, "main", "bad", &tag, &err), -EBADMSG);
	cr_assert(strstr(err.text, "tag-bad.json"), "%s", err.text);
	cr_assert_eq(tags_list(&repo, "main", &tags, &n, &err), 0);
	cr_assert_eq(n, 2);
	cr_expect_eq(tags[0].rc, -EBADMSG);
	cr_expect_str_eq(tags[0].tag.name, "bad");
	cr_expect_eq(tags[1].rc, 0);
	cr_expect_eq(tags_next(tags, n, 0, (struct step_id){0, 0}), n, "a damaged one names nothing");
}
