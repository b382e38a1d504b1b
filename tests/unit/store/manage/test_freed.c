#include "scratch.h"
#include "store/manage/freed.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[SCRATCH_MAX];
static struct repo repo;
static struct freed f;
static struct err err;

enum { PAGES = 16, BYTES = PAGES * 4096 };

static void write_file(const char *name)
{
	char *data = calloc(1, BYTES);
	memset(data, 1, BYTES);
	scratch_write(root, name, data, BYTES);
	free(data);
}

static void link_file(const char *name, const char *name2)
{
	char from[512], to[512];
	snprintf(from, sizeof(from), "%s/%s", root, name);
	snprintf(to, sizeof(to), "%s/%s", root, name2);
	cr_assert_eq(link(from, to), 0);
}

static void setup(void)
{
	char path[512];
	static const char *const dirs[] = {"main", "main/a", "main/b", "main/c"};
	scratch_new(root);
	cr_assert_eq(repo_create(root, &err), 0, "%s", err.text);
	cr_assert_eq(repo_open(root, &repo, &err), 0, "%s", err.text);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
		mkdir(path, 0755);
	}
	write_file("main/a/own");
	write_file("main/b/own");
	write_file("main/a/frozen");
	link_file("main/a/frozen", "main/b/frozen");
	link_file("main/a/frozen", "main/c/frozen");
	write_file("main/a/pair");
	link_file("main/a/pair", "main/b/pair");
}

static void teardown(void)
{
	freed_free(&f);
	repo_close(&repo);
	scratch_remove(root);
}

TestSuite(freed, .init = setup, .fini = teardown);

static void add(const char *dir, size_t owner)
{
	cr_assert_eq(freed_add(&f, &repo, "main", dir, owner, &err), 0, "%s", err.text);
}

/* Blocks, as the file system counts them: at least what was written. */
static bool about(uint64_t bytes, uint64_t files)
{
	return bytes >= files * BYTES && bytes < files * BYTES + BYTES / 2;
}

Test(freed, a_file_goes_with_its_last_name)
{
	uint64_t by[3] = {0};
	add("a", 0);
	cr_assert(about(freed_count(&f, by), 1), "the others have names elsewhere");
	freed_free(&f);
	add("a", 0);
	add("b", 1);
	memset(by, 0, sizeof(by));
	cr_assert(about(freed_count(&f, by), 3), "two of their own and the pair");
	cr_assert(about(by[0], 1) && about(by[1], 2), "the pair goes with the second");
	freed_free(&f);
	add("a", 0);
	add("b", 1);
	add("c", 2);
	memset(by, 0, sizeof(by));
	cr_assert(about(freed_count(&f, by), 4));
	cr_assert(about(by[2], 1), "the frozen group goes with the third");
}

Test(freed, nothing_frees_nothing)
{
	cr_assert_eq(freed_count(&f, NULL), 0);
	add("none", 0);
	cr_assert_eq(f.n, 0);
	cr_assert_eq(freed_add(&f, &repo, "nojob", "a", 0, &err), 0);
	cr_assert_eq(f.n, 0);
}
