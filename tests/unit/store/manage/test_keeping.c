#include "scratch.h"
#include "store/manage/keeping.h"
#include "store/manage/tags.h"
#include "store_maker.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "format/files/marks.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[SCRATCH_MAX];
static struct repo repo;
static struct keeping k;
static struct err err;

static struct store_spec spec_of(uint64_t step)
{
	return (struct store_spec){.root = root, .id = {step, 1}, .rows = 8, .cols = 4};
}

static void make(uint64_t step)
{
	struct store_spec spec = spec_of(step);
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
}

static void health(uint64_t step, bool damaged)
{
	struct store_spec spec = spec_of(step);
	cr_assert_eq(store_mark_health(&spec, damaged, "", &err), 0, "%s", err.text);
}

static void setup(void)
{
	scratch_new(root);
	for (uint64_t step = 1; step <= 4; step++)
		make(step);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	keeping_free(&k);
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(keeping, .init = setup, .fini = teardown);

static void load(void)
{
	keeping_free(&k);
	cr_assert_eq(keeping_load(&repo, "main", &k, &err), 0, "%s", err.text);
}

Test(keeping, a_tag_of_a_name_that_is_not_given_any_more_protects_all_the_same)
{
	AUTO_WBUF struct wbuf text = {0};
	struct tag tag = {.job = "main", .id = {3, 1}, .tagged_at = 1, .name = "healthy"};
	char dir[SCRATCH_MAX + 8];
	snprintf(dir, sizeof(dir), "%s/main", root);
	cr_assert_eq(tag_put(&repo, &tag, false, &err), -EINVAL);
	cr_assert_eq(tag_encode(&tag, &text), 0);
	scratch_write(dir, "tag-healthy.json", text.data, text.len);
	load();
	cr_expect(k.items[2].tagged);
	cr_assert_eq(tag_drop(&repo, "main", "healthy", &err), 0, "%s", err.text);
	load();
	cr_expect(!k.items[2].tagged);
}

Test(keeping, marks_and_tags_are_found)
{
	struct store_spec pinned = spec_of(2);
	struct tag tag = {.job = "main", .id = {3, 1}, .tagged_at = 1, .name = "best"};
	health(1, false);
	health(4, true);
	cr_assert_eq(store_mark_pin(&pinned, "", &err), 0);
	cr_assert_eq(tag_put(&repo, &tag, false, &err), 0);
	load();
	cr_assert_eq(k.n, 4);
	cr_expect(k.items[0].verified && !k.items[0].damaged && !k.items[0].pinned && !k.items[0].tagged);
	cr_expect(k.items[1].pinned && !k.items[1].verified && !k.items[1].tagged);
	cr_expect(k.items[2].tagged && !k.items[2].pinned);
	cr_expect(k.items[3].damaged && !k.items[3].verified);
	cr_expect_eq(k.blind, 0);
	struct store_spec good = spec_of(2), bad = spec_of(3);
	cr_assert_eq(store_put_mark(&good, false, "", &err), 0);
	cr_assert_eq(store_put_mark(&bad, true, "", &err), 0);
	load();
	cr_expect(!k.items[0].healthy && k.items[1].healthy && !k.items[2].healthy);
	for (size_t i = 0; i < k.n; i++)
		cr_expect(!k.items[i].in_use && k.items[i].committed_ns);
}

Test(keeping, what_is_no_checkpoint_is_left_out_and_a_missing_job_has_none)
{
	struct store_spec partial = spec_of(9);
	partial.partial = true;
	cr_assert_eq(store_make(&partial, &err), 0);
	load();
	cr_assert_eq(k.n, 4);
	keeping_free(&k);
	cr_assert_eq(keeping_load(&repo, "other", &k, &err), 0);
	cr_assert_eq(k.n, 0);
}

/* A health mark that was copied with the files was not made from these bytes. */
Test(keeping, a_mark_older_than_the_manifest_does_not_verify)
{
	char dir[512];
	struct store_spec spec = spec_of(1);
	health(1, false);
	store_dir(&spec, dir, sizeof(dir));
	snprintf(dir + strlen(dir), sizeof(dir) - strlen(dir), "/%s", NAME_MANIFEST);
	struct timespec later = {.tv_sec = (time_t)(clock_wall() / CLOCK_NS_PER_S) + 5};
	struct timespec times[2] = {later, later};
	cr_assert_eq(utimensat(AT_FDCWD, dir, times, 0), 0);
	load();
	cr_expect(!k.items[0].verified);
}

Test(keeping, unreadable_marks_protect)
{
	char dir[512];
	struct store_spec spec = spec_of(2);
	store_dir(&spec, dir, sizeof(dir));
	scratch_write(dir, "PINNED", "x", 1);
	load();
	cr_expect(k.items[1].pinned && !k.items[0].pinned);
	snprintf(dir, sizeof(dir), "%s/main", root);
	scratch_write(dir, "tag-lost.json", "x", 1);
	load();
	cr_expect_eq(k.blind, 1);
	for (size_t i = 0; i < k.n; i++)
		cr_expect(k.items[i].tagged, "nobody knows which one the tag names");
}

Test(keeping, a_broken_manifest_is_damage_and_its_pin_holds)
{
	char dir[512];
	struct store_spec spec = spec_of(3);
	store_dir(&spec, dir, sizeof(dir));
	scratch_flip(dir, NAME_MANIFEST, 10, 1);
	cr_assert_eq(store_mark_pin(&spec, "", &err), 0);
	load();
	cr_assert_eq(k.n, 4);
	cr_expect(k.items[2].damaged && k.items[2].pinned && !k.items[2].in_use);
	cr_expect(k.items[2].unreadable && !k.items[1].unreadable);
}

Test(keeping, what_the_job_gave_up_is_known)
{
	AUTO_WBUF struct wbuf text = {0};
	struct begun begun = {.job = "main", .id = {0, 2}, .back = {.n = 1, .of = {{.at = 2, .to = {2, 1}}}}};
	char dir[SCRATCH_MAX + 8];
	snprintf(dir, sizeof(dir), "%s/main", root);
	load();
	for (size_t i = 0; i < k.n; i++)
		cr_expect(!k.items[i].given_up);
	cr_assert_eq(begun_encode(&begun, &text), 0);
	scratch_write(dir, NAME_EPOCH, text.data, text.len);
	load();
	cr_expect(!k.items[0].given_up && !k.items[1].given_up && k.items[2].given_up && k.items[3].given_up);
	scratch_write(dir, NAME_EPOCH, "x", 1);
	keeping_free(&k);
	cr_assert_eq(keeping_load(&repo, "main", &k, &err), -EBADMSG, "who knows what counts?");
	cr_expect(strstr(err.text, "/main/" NAME_EPOCH), "%s", err.text);
}

Test(keeping, settles_the_newest_that_stays)
{
	load();
	cr_assert_eq(keeping_settle(&repo, "main", &k, &err), 0, "nothing stays, nothing to do");
	k.items[2].keep = RETENTION_LAST;
	cr_assert_eq(keeping_settle(&repo, "main", &k, &err), 0, "%s", err.text);
	k.items[0] = (struct retention_item){.id = {77, 1}, .keep = RETENTION_HEALTHY};
	cr_assert_eq(keeping_settle(&repo, "main", &k, &err), -ENOENT, "the healthy one has gone");
	k.items[0].keep = 0;
	k.items[3] = (struct retention_item){.id = {77, 1}, .keep = RETENTION_LAST};
	cr_assert_eq(keeping_settle(&repo, "main", &k, &err), -ENOENT, "it has gone: nothing else may");
}
