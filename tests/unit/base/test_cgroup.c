#include "base/cgroup.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char top[64], tree[96], list[96];

/* Makes tree/PATH with the text, and the folders above it. */
static void put(const char *path, const char *text)
{
	char name[256];
	snprintf(name, sizeof(name), "%s/%s", tree, path);
	for (char *c = name + 1; (c = strchr(c, '/')); c++) {
		*c = '\0';
		mkdir(name, 0755);
		*c = '/';
	}
	FILE *f = fopen(name, "w");
	cr_assert(f, "%s", name);
	fputs(text, f);
	fclose(f);
}

static void write_list(const char *groups)
{
	FILE *f = fopen(list, "w");
	fputs(groups, f);
	fclose(f);
}

static uint64_t limit_of(const char *groups)
{
	write_list(groups);
	return cgroup_memory_limit_of(list, tree);
}

static uint64_t kills_in(const char *groups)
{
	write_list(groups);
	return cgroup_memory_kills_of(list, tree);
}

static void setup(void)
{
	snprintf(top, sizeof(top), "/tmp/ckpt-cgroup-XXXXXX");
	cr_assert(mkdtemp(top));
	snprintf(tree, sizeof(tree), "%s/tree", top);
	snprintf(list, sizeof(list), "%s/list", top);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static void teardown(void)
{
	cr_assert_eq(nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

TestSuite(cgroup, .init = setup, .fini = teardown);

Test(cgroup, the_lowest_limit_up_the_tree_counts)
{
	put("memory.max", "max\n");
	put("a/memory.max", "1000000\n");
	put("a/b/memory.max", "max\n");
	put("a/b/c/memory.max", "2000000\n");
	cr_expect_eq(limit_of("0::/a/b/c\n"), 1000000);
	cr_expect_eq(limit_of("0::/\n"), UINT64_MAX);
	put("memory.max", "5000\n");
	cr_expect_eq(limit_of("0::/a/b/c\n"), 5000);
}

Test(cgroup, version_one_is_read_too)
{
	put("memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("memory/job/memory.limit_in_bytes", "700000000\n");
	cr_expect_eq(limit_of("5:cpu,cpuacct:/\n4:memory:/job\n0::/\n"), 700000000);
	cr_expect_eq(limit_of("4:hugetlb,memory:/job\n"), 700000000);
	cr_expect_eq(limit_of("4:memory:/\n"), UINT64_MAX);
}

Test(cgroup, both_versions_side_by_side)
{
	put("unified/job/memory.max", "300\n");
	put("memory/job/memory.limit_in_bytes", "400\n");
	cr_expect_eq(limit_of("4:memory:/job\n0::/job\n"), 300);
}

Test(cgroup, a_container_that_knows_only_the_name_of_the_host_finds_its_own)
{
	put("memory.max", "12345678\n");
	cr_expect_eq(limit_of("0::/docker/0123456789abcdef\n"), 12345678);
}

Test(cgroup, nonsense_is_no_limit)
{
	put("memory.max", "");
	cr_expect_eq(limit_of("0::/\n"), UINT64_MAX);
	put("memory.max", "99999999999999999999999999\n");
	cr_expect_eq(limit_of("0::/\n"), UINT64_MAX);
	cr_expect_eq(limit_of("\n::\nmemory\n"), UINT64_MAX);
	cr_expect_eq(cgroup_memory_limit_of("/nowhere", tree), UINT64_MAX);
}

Test(cgroup, who_was_killed_is_counted_where_the_process_is)
{
	put("memory.events", "low 0\noom 9\noom_kill 9\n");
	put("job/memory.events", "low 0\nhigh 7\nmax 4\noom 3\noom_kill 2\noom_group_kill 1\n");
	cr_expect_eq(kills_in("0::/job\n"), 2);
	cr_expect_eq(kills_in("0::/docker/0123456789abcdef\n"), 9, "a container knows its own by no name");
	put("memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
	cr_expect_eq(kills_in("4:memory:/job\n"), 5);
	put("job/memory.events", "oom_kill x\n");
	cr_expect_eq(kills_in("0::/job\n"), 0);
	cr_expect_eq(kills_in("memory\n"), 0);
	cr_expect_eq(cgroup_memory_kills_of("/nowhere", tree), 0);
}

Test(cgroup, this_process_has_an_answer)
{
	cr_expect_gt(cgroup_memory_limit(), 0);
}
