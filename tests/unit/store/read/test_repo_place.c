#include "scratch.h"
#include "store/read/repo.h"
#include "store/read/repo_place.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[SCRATCH_MAX], path[SCRATCH_MAX + 16], away[SCRATCH_MAX + 16], mark[SCRATCH_MAX + 64];
static struct disk *disk;
static struct repo_place place;
static struct err err;
static int root;

static void setup(void)
{
	scratch_new(scratch);
	snprintf(path, sizeof(path), "%s/store", scratch);
	snprintf(away, sizeof(away), "%s/away", scratch);
	snprintf(mark, sizeof(mark), "%s/" REPO_MARK, path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	cr_assert_eq(repo_place_init(&place, disk, root, path, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	disk_free(disk);
	scratch_remove(scratch);
}

TestSuite(repo_place, .init = setup, .fini = teardown);

static void expect_lost(const char *what)
{
	err = (struct err){0};
	cr_expect_eq(repo_place_check(&place, &err), -ENOENT);
	cr_expect(strstr(err.text, what) && strstr(err.text, path), "%s", err.text);
	cr_expect_str_eq(place.trouble.text, err.text);
}

static void expect_there(void)
{
	cr_expect_eq(repo_place_check(&place, &err), 0, "%s", err.text);
	cr_expect_str_empty(place.trouble.text);
}

static void put_mark(const char *text)
{
	FILE *f = fopen(mark, "w");
	cr_assert(f && fputs(text, f) >= 0 && !fclose(f));
}

Test(repo_place, a_mark_that_is_made_again_counts)
{
	expect_there();
	cr_assert_eq(unlink(mark), 0);
	expect_lost("is not a repository: it has no file " REPO_MARK);
	put_mark(REPO_MARK_TEXT);
	expect_there();
}

Test(repo_place, a_mark_that_says_something_else_does_not)
{
	put_mark("something\n");
	expect_lost("it has to begin with the line");
	put_mark("ckpt-repository 1000\n");
	expect_lost("another version");
	cr_assert_eq(unlink(mark), 0);
	cr_assert_eq(mkdir(mark, 0700), 0);
	expect_lost(REPO_MARK);
}

Test(repo_place, a_store_that_is_moved_away_and_back)
{
	cr_assert_eq(rename(path, away), 0);
	expect_lost("is gone: no such directory");
	cr_assert_eq(rename(away, path), 0);
	expect_there();
}

Test(repo_place, another_repository_in_its_place_is_not_it)
{
	cr_assert_eq(rename(path, away), 0);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	expect_lost("is another directory");
}

Test(repo_place, a_link_to_it_leads_to_it)
{
	cr_assert_eq(rename(path, away), 0);
	cr_assert_eq(symlink(away, path), 0);
	expect_there();
}

Test(repo_place, what_a_copy_has_found_is_told)
{
	struct repo_place copy = place;
	cr_assert_eq(unlink(mark), 0);
	cr_expect_eq(repo_place_check(&copy, NULL), -ENOENT);
	repo_place_found(&place, &copy);
	cr_expect(strstr(place.trouble.text, REPO_MARK));
}
