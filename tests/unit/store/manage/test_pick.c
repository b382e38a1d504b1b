#include "scratch.h"
#include "store/manage/pick.h"
#include "store/manage/tags.h"
#include "store_maker.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char root[SCRATCH_MAX];
static struct repo repo;
static struct err err;
static struct checkpoint_ref *refs;
static size_t nrefs;

static struct store_spec spec_of(uint64_t step, uint32_t epoch)
{
	return (struct store_spec){.root = root, .id = {step, epoch}, .world = 1, .rows = 4, .cols = 4};
}

/* 5.e1, 10.e1, 10.e2, 20.e2 (healthy, damaged), and 30.e2, which is partial. */
static void setup(void)
{
	static const struct step_id ids[] = {{5, 1}, {10, 1}, {10, 2}, {20, 2}, {30, 2}};
	scratch_new(root);
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		struct store_spec spec = spec_of(ids[i].step, ids[i].epoch);
		spec.partial = ids[i].step == 30;
		cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	}
	struct store_spec damaged = spec_of(20, 2), healthy = spec_of(10, 1);
	cr_assert_eq(store_put_mark(&damaged, false, "", &err), 0);
	cr_assert_eq(store_mark_health(&damaged, true, "torn", &err), 0);
	cr_assert_eq(store_put_mark(&healthy, false, "", &err), 0);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(repo_scan(&repo, "main", &refs, &nrefs, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	free(refs);
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(pick, .init = setup, .fini = teardown);

/* The step and its epoch as STEP * 10 + EPOCH, or what is wrong. */
static int64_t picks(const char *text)
{
	struct pick pick;
	struct checkpoint_ref ref;
	int rc = pick_parse(text, &pick, &err);
	if (!rc)
		rc = pick_resolve(&repo, "main", &pick, &err);
	if (!rc)
		rc = pick_among(&repo, &pick, refs, nrefs, &ref, &err);
	return rc ? rc : (int64_t)(ref.id.step * 10 + ref.id.epoch);
}

Test(pick, by_what_a_person_says)
{
	cr_expect_eq(picks(NULL), 202);
	cr_expect_eq(picks("latest"), 202);
	cr_expect_eq(picks("healthy"), 101, "20 is damaged");
	cr_expect_eq(picks("10"), 102, "the newest epoch");
	cr_expect_eq(picks("10.e1"), 101);
	cr_expect_eq(picks("10.e0001"), 101);
	cr_expect_eq(picks("step-000000000005.e0001"), 51);
}

Test(pick, by_a_tag)
{
	struct tag tag = {.job = "main", .id = {5, 1}, .name = "best"};
	cr_assert_eq(tag_put(&repo, &tag, false, &err), 0, "%s", err.text);
	cr_expect_eq(picks("best"), 51);
	tag.id.step = 10;
	cr_assert_eq(tag_put(&repo, &tag, true, &err), 0);
	cr_expect_eq(picks("best"), 101, "not the newest epoch");
	cr_expect_eq(picks("worst"), -ENOENT);
	tag.id.step = 6;
	cr_assert_eq(tag_put(&repo, &tag, true, &err), 0);
	cr_expect_eq(picks("best"), -ENOENT);
	cr_expect(strstr(err.text, "tag best names step-000000000006.e0001, which is not there"), "%s", err.text);
}

Test(pick, says_what_is_there_instead)
{
	cr_expect_eq(picks("7"), -ENOENT);
	cr_expect(strstr(err.text, "step-000000000005.e0001 below and step-000000000010.e0001 above") ||
			  strstr(err.text, "step-000000000005.e0001 below and step-000000000010.e0002 above"),
		  "%s", err.text);
	cr_expect_eq(picks("30"), -ENOENT);
	cr_expect(strstr(err.text, "30 was never committed"), "%s", err.text);
	cr_expect_eq(picks("10.e3"), -ENOENT);
	nrefs = 0;
	cr_expect_eq(picks("latest"), -ENODATA);
	cr_expect_eq(picks("healthy"), -ENODATA);
	cr_expect_eq(picks("7"), -ENOENT);
	cr_expect(strstr(err.text, "and none that was committed"), "%s", err.text);
}

Test(pick, refuses_what_is_no_name)
{
	static const char *const bad[] = {"", "10.e", "10.", "10.x1", "1234567890123", "a/b", "-1", "step-7", "a\nb"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		cr_expect_eq(picks(bad[i]), -EINVAL, "\"%s\"", bad[i]);
		cr_expect(strstr(err.text, "is no checkpoint: say latest, healthy, 1000"), "%s", err.text);
	}
}
