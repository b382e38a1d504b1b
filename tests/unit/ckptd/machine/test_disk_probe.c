#include "machine/disk_probe.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char store[64];

static void setup(void)
{
	snprintf(store, sizeof(store), "/tmp/probe-XXXXXX");
	cr_assert_not_null(mkdtemp(store));
}

TestSuite(disk_probe, .init = setup);

static unsigned files(void)
{
	unsigned n = 0;
	DIR *dir = opendir(store);
	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

Test(disk_probe, takes_time_and_leaves_nothing)
{
	uint64_t ns = 0;
	cr_assert_eq(disk_probe(store, "n0", &ns), 0);
	cr_assert_gt(ns, 0u);
	cr_assert_eq(files(), 0u);
}

Test(disk_probe, what_a_killed_daemon_has_left_is_no_hindrance)
{
	uint64_t ns = 0;
	char path[128];
	snprintf(path, sizeof(path), "%s/.check-n0", store);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	cr_assert_eq(files(), 1u);
	cr_assert_eq(disk_probe(store, "n0", &ns), 0);
	cr_assert_eq(files(), 0u);
}

Test(disk_probe, says_why_it_cannot)
{
	uint64_t ns = 0;
	rmdir(store);
	cr_assert_eq(disk_probe(store, "n0", &ns), -ENOENT);
	cr_assert_eq(disk_probe("/proc/self", "n0", &ns), -ENOENT, "nothing can be made there");
	cr_assert_eq(ns, 0u);
}
