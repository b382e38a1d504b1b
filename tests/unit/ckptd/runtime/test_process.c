#include "runtime/process.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* It lives until it is killed. */
static pid_t child(void)
{
	pid_t pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid)
		for (;;)
			pause();
	return pid;
}

Test(process, a_living_one_is_not_dying)
{
	pid_t pid = child();
	cr_expect_not(process_is_dying(pid));
	cr_expect_not(process_is_dying(getpid()));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(process, one_that_was_killed_is_dying_until_somebody_has_waited_for_it_and_after)
{
	siginfo_t info;
	pid_t pid = child();
	kill(pid, SIGKILL);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	cr_expect(process_is_dying(pid));
	waitpid(pid, NULL, 0);
	cr_expect(process_is_dying(pid));
}

/* SIGKILL reaches a stopped process at once, but a traced or uninterruptible one only pends it: the mask tells. */
Test(process, a_stopped_one_lives)
{
	siginfo_t info;
	pid_t pid = child();
	kill(pid, SIGSTOP);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
	cr_expect_not(process_is_dying(pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(process, one_of_another_pid_namespace_has_no_number_and_is_taken_for_a_living_one)
{
	cr_expect_str_eq(process_text(4711).text, "process 4711");
	cr_expect_str_eq(process_text(-4711).text, "process of another PID namespace");
	cr_expect_not(process_is_dying(-1));
	cr_expect_not(process_is_dying(0));
}
