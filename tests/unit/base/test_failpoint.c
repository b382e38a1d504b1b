#include "base/failpoint.h"

#include <criterion/criterion.h>

#ifdef CKPT_FAILPOINTS
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

static const char *arm(const char *spec)
{
	static struct err err;
	err.text[0] = 0;
	return failpoint_arm(spec, &err) < 0 ? err.text : NULL;
}

static void assert_refused(const char *spec, int rc)
{
	struct err err = {0};
	cr_assert_eq(failpoint_arm(spec, &err), rc, "%s", spec);
	cr_assert(*err.text);
	cr_assert_eq(failpoint("base.test", NULL), 0, "nothing is armed after '%s'", spec);
}

Test(failpoint, unarmed_does_nothing)
{
	size_t size = 100;
	cr_assert_eq(failpoint("base.test", &size), 0);
	cr_assert_eq(size, 100);
}

Test(failpoint, error_fires_at_every_hit)
{
	cr_assert_null(arm("base.test=error:ENOSPC"));
	cr_assert_eq(failpoint("base.test", NULL), -ENOSPC);
	cr_assert_eq(failpoint("base.test", NULL), -ENOSPC);
	cr_assert_null(arm(""));
	cr_assert_eq(failpoint("base.test", NULL), 0);
}

Test(failpoint, number_picks_one_hit)
{
	cr_assert_null(arm("base.test=error:EIO@2,base.test=error:EROFS@3"));
	cr_assert_eq(failpoint("base.test", NULL), 0);
	cr_assert_eq(failpoint("base.test", NULL), -EIO);
	cr_assert_eq(failpoint("base.test", NULL), -EROFS);
	cr_assert_eq(failpoint("base.test", NULL), 0);
}

Test(failpoint, short_cuts_the_size)
{
	size_t size = 100, small = 5;
	cr_assert_null(arm("base.test=short:10"));
	cr_assert_eq(failpoint("base.test", &size), 0);
	cr_assert_eq(size, 10);
	cr_assert_eq(failpoint("base.test", &small), 0);
	cr_assert_eq(small, 5);
	cr_assert_eq(failpoint("base.test", NULL), 0);
}

Test(failpoint, delay_takes_its_time)
{
	cr_assert_null(arm("base.test=delay:30"));
	uint64_t start = clock_now();
	cr_assert_eq(failpoint("base.test", NULL), 0);
	cr_assert_geq(clock_now() - start, 30 * CLOCK_NS_PER_MS);
}

Test(failpoint, errno_is_left_alone)
{
	cr_assert_null(arm("base.test=delay:1"));
	errno = EDOM;
	failpoint("base.test", NULL);
	cr_assert_eq(errno, EDOM);
}

Test(failpoint, malformed_is_refused)
{
	assert_refused("base.test", -EINVAL);
	assert_refused("base.test=", -EINVAL);
	assert_refused("base.test=error", -EINVAL);
	assert_refused("base.test=error:ENOSUCH", -EINVAL);
	assert_refused("base.test=short:-1", -EINVAL);
	assert_refused("base.test=delay:1x", -EINVAL);
	assert_refused("base.test=kill:1", -EINVAL);
	assert_refused("base.test=explode:1", -EINVAL);
	assert_refused("base.test=kill@0", -EINVAL);
	assert_refused("base.test=kill@x", -EINVAL);
	assert_refused("base.test=error:EIO,base.nothing=kill", -ENOENT);
}

Test(failpoint, names_are_sorted)
{
	const char *const *name = failpoint_names();
	cr_assert_not_null(name[0]);
	for (; name[1]; name++)
		cr_assert_lt(strcmp(name[0], name[1]), 0, "%s, %s", name[0], name[1]);
}

Test(failpoint, hits_and_firings_are_logged)
{
	char path[] = "/tmp/failpoint-XXXXXX", text[512];
	AUTO_CLOSE int fd = mkstemp(path);
	setenv("CKPT_FAILPOINT_LOG", path, 1);
	size_t size = 9;
	cr_assert_null(arm("base.test=short:3@2"));
	failpoint("base.test", &size);
	failpoint("base.test", &size);
	failpoint("base.test", &size);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	unlink(path);
	cr_assert_geq(n, 0);
	text[n] = 0;
	cr_assert_str_eq(text, "hit base.test\nhit base.test\nfired base.test short\nhit base.test\n");
}

/* This program again, as a child whose environment arms a failpoint; it only lists its tests, or does not even start. */
static int start_with(const char *spec)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	cr_assert_gt(n, 0);
	self[n] = 0;
	unsetenv("BXFI_MAP");
	setenv("CKPT_FAILPOINTS", spec, 1);
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	char list[] = "--list", *argv[] = {self, list, NULL};
	pid_t pid;
	int status;
	cr_assert_eq(posix_spawn(&pid, self, &files, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&files);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

Test(failpoint, unknown_name_in_the_environment_stops_the_program)
{
	int status = start_with("base.nothing=kill");
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 2);
	cr_assert_eq(start_with("base.test=kill"), 0);
}

Test(failpoint, kill_is_sigkill, .signal = SIGKILL)
{
	cr_assert_null(arm("base.test=kill"));
	failpoint("base.test", NULL);
}
#else
Test(failpoint, compiled_out)
{
	size_t size = 100;
	setenv("CKPT_FAILPOINTS", "base.test=error:EIO", 1);
	cr_assert_eq(failpoint("base.test", &size), 0);
	cr_assert_eq(size, 100);
}
#endif
