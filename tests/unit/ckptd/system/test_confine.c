#include "system/confine.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A tree as the kernel would show it; the group of this process in it is where its control groups say. */
static char tree[SCRATCH_MAX], own[PATH_MAX];
static struct confine confine;
static struct err err;

static void add_folder(const char *name)
{
	static const char *const files[] = {"cgroup.procs", "cgroup.subtree_control", "memory.max", "pids.max"};
	char path[PATH_MAX + 64];
	snprintf(path, sizeof(path), "%s%s", own, name);
	for (char *slash = path + strlen(tree) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	mkdir(path, 0755);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s%s/%s", own, name, files[i]);
		int fd = open(path, O_CREAT | O_WRONLY, 0644);
		cr_assert_geq(fd, 0, "%s", path);
		close(fd);
	}
}

static const char *content(const char *file)
{
	static char text[64];
	char path[PATH_MAX + 64];
	snprintf(path, sizeof(path), "%s%s", own, file);
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	cr_assert_geq(n, 0, "%s", path);
	text[n] = '\0';
	close(fd);
	return text;
}

static void setup(void)
{
	char line[PATH_MAX - 300] = "";
	FILE *list = fopen("/proc/self/cgroup", "re");
	bool found = false;
	while (list && !found && fgets(line, sizeof(line), list))
		found = !strncmp(line, "0::", 3);
	if (!found)
		cr_skip_test("no control groups of version 2 here");
	line[strcspn(line, "\n")] = '\0';
	scratch_new(tree);
	snprintf(own, sizeof(own), "%s%s", tree, line + 3);
	add_folder("");
	add_folder("/warden");
	add_folder("/user-7");
	err = (struct err){{0}};
}

static void teardown(void)
{
	if (*tree)
		scratch_remove(tree);
}

TestSuite(confine, .init = setup, .fini = teardown);

static void delegate(void)
{
	if (setxattr(own, "user.delegate", "1", 1, 0))
		cr_skip_test("no extended attributes in the scratch folder");
}

Test(confine, what_was_not_delegated_is_left_alone)
{
	cr_assert_eq(confine_open(&confine, tree, &err), 0);
	cr_assert_str_eq(confine.folder, "");
	cr_assert_str_eq(content("/warden/cgroup.procs"), "");
	cr_assert_eq(confine_enter(&confine, 7, 100, &err), 0);
	cr_assert_str_eq(content("/user-7/cgroup.procs"), "");
}

Test(confine, the_warden_moves_out_of_the_way_and_users_are_held_apart)
{
	delegate();
	cr_assert_eq(confine_open(&confine, tree, &err), 0, "%s", err.text);
	cr_assert_str_eq(content("/warden/cgroup.procs"), "0");
	cr_assert_eq(confine_enter(&confine, 7, 123456789, &err), 0, "%s", err.text);
	cr_assert_str_eq(content("/user-7/cgroup.procs"), "0");
	cr_assert_str_eq(content("/user-7/memory.max"), "123456789");
	cr_assert_str_eq(content("/user-7/pids.max"), "256");
}

Test(confine, a_group_that_cannot_be_entered_is_an_error)
{
	char path[PATH_MAX + 64];
	delegate();
	cr_assert_eq(confine_open(&confine, tree, &err), 0);
	snprintf(path, sizeof(path), "%s/user-7/cgroup.procs", own);
	unlink(path);
	cr_assert_eq(confine_enter(&confine, 7, 1, &err), -ENOENT);
	cr_assert(strstr(err.text, "user-7"), "%s", err.text);
}
