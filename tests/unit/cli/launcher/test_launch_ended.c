#include "launcher/launch_ended.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>

static struct ended killed(pid_t pid, int sig, bool waited)
{
	return (struct ended){.pid = pid, .status = W_EXITCODE(0, sig), .waited = waited};
}

static struct ended exited(pid_t pid, int code, bool waited)
{
	return (struct ended){.pid = pid, .status = W_EXITCODE(code, 0), .waited = waited};
}

static void expect_order(const struct ended *ended, const pid_t *pids, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		cr_expect_eq(ended[i].pid, pids[i], "place %u: %d", i, (int)ended[i].pid);
}

Test(launch_ended, what_a_signal_has_ended_comes_first_wherever_it_was_found)
{
	for (uint32_t at = 0; at < 8; at++) {
		struct ended all[8];
		for (uint32_t i = 0; i < 8; i++)
			all[i] = i == at ? killed(99, SIGKILL, false) : exited((pid_t)(1 + i), 5, false);
		ended_sort(all, 8);
		cr_expect_eq(all[0].pid, 99, "found at %u", at);
	}
}

Test(launch_ended, who_waited_for_another_comes_after_who_exited_by_itself)
{
	struct ended all[] = {exited(1, 1, true), exited(2, 5, false), exited(3, 1, true), exited(4, 0, false)};
	ended_sort(all, 4);
	expect_order(all, (pid_t[]){2, 4, 1, 3}, 4);
}

/* A rank that is killed in a collective is a loss all the same; which signal says nothing. */
Test(launch_ended, signals_are_alike)
{
	struct ended all[] = {exited(1, 1, false), killed(2, SIGABRT, true), killed(3, SIGKILL, false)};
	all[1].status |= WCOREFLAG;
	ended_sort(all, 3);
	expect_order(all, (pid_t[]){2, 3, 1}, 3);
}

Test(launch_ended, of_nothing_makes_nothing)
{
	struct ended one = exited(7, 1, true);
	ended_sort(NULL, 0);
	ended_sort(&one, 1);
	cr_expect_eq(one.pid, 7);
}
