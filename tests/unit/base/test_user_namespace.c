#include "base/user_namespace.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELD = 0, WRONG = 1, NO_NAMESPACE = 77 };

static void write_map(const char *line)
{
	int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || dprintf(fd, "%s", line) < 0)
		_exit(NO_NAMESPACE);
	close(fd);
}

/* The status of a process that looks at it from a namespace which knows its own user alone, as 0. */
static int in_a_namespace(bool (*holds)(void))
{
	uid_t self = getuid();
	pid_t pid = fork();
	if (!pid) {
		char line[32];
		snprintf(line, sizeof(line), "0 %u 1", self);
		if (unshare(CLONE_NEWUSER))
			_exit(NO_NAMESPACE);
		write_map(line);
		_exit(holds() ? HELD : WRONG);
	}
	int status;
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static bool tells_them_apart(void)
{
	return user_is_one(0) && user_is_one(12345) && !user_is_one(USER_OVERFLOW_DEFAULT);
}

Test(user_namespace, the_first_one_knows_all_users)
{
	char map[64] = "";
	FILE *f = fopen("/proc/self/uid_map", "re");
	cr_assert(f && fgets(map, sizeof(map), f));
	fclose(f);
	if (!strstr(map, "4294967295"))
		cr_skip_test("this runs in a user namespace");
	cr_expect(user_is_one(USER_OVERFLOW_DEFAULT));
	cr_expect(user_is_one(0));
}

Test(user_namespace, where_some_users_are_not_known_their_common_number_is_nobody_s)
{
	int status = in_a_namespace(tells_them_apart);
	if (status == NO_NAMESPACE)
		cr_skip_test("no user namespaces here");
	cr_expect_eq(status, HELD);
}
