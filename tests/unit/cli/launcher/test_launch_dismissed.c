#include "launcher/launch_dismissed.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

extern char **environ;

static struct dismissed dismissed;

/* A process that says so when SIGTERM comes, and goes on. */
static struct proc stubborn(void)
{
	int ends[2];
	char said;
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"trap : TERM; echo; while :; do sleep 0.1; done", NULL};
	struct err err = {""};
	struct proc proc;
	cr_assert_eq(pipe(ends), 0);
	struct proc_spec spec = {.argv = argv, .env = environ, .out = ends[1], .err = -1, .death_signal = SIGKILL};
	cr_assert_eq(proc_start(&proc, &spec, &err), 0, "%s", err.text);
	cr_assert_eq(read(ends[0], &said, 1), 1);
	return proc;
}

static void ends(const struct proc *was)
{
	struct pollfd p = {.fd = was->pidfd, .events = POLLIN};
	cr_assert_eq(poll(&p, 1, 20000), 1);
	cr_expect(dismissed_reap(&dismissed, was->pid));
	cr_expect_not(dismissed_reap(&dismissed, was->pid), "once");
}

static bool is_there(const struct proc *was)
{
	struct pollfd p = {.fd = was->pidfd, .events = POLLIN};
	return poll(&p, 1, 300) == 0;
}

Test(launch_dismissed, a_process_has_its_time_and_is_then_killed)
{
	struct proc proc = stubborn(), was = proc;
	dismissed_add(&dismissed, &proc, 1000);
	cr_expect_eq(proc.pid, 0, "it is nobody's any more");
	cr_expect_eq(dismissed_next(&dismissed), 1000);
	dismissed_tick(&dismissed, 999);
	cr_expect(is_there(&was));
	dismissed_tick(&dismissed, 1000);
	cr_expect_eq(dismissed_next(&dismissed), UINT64_MAX);
	ends(&was);
	cr_expect_eq(dismissed.n, 0);
}

Test(launch_dismissed, when_others_begin_nobody_has_time_any_more)
{
	struct proc a = stubborn(), b = stubborn(), first = a, second = b;
	dismissed_add(&dismissed, &a, UINT64_MAX);
	dismissed_add(&dismissed, &b, UINT64_MAX);
	cr_expect(is_there(&first) && is_there(&second));
	dismissed_kill(&dismissed);
	ends(&first);
	ends(&second);
}

Test(launch_dismissed, whose_number_is_taken_has_none)
{
	struct proc proc = stubborn(), was = proc;
	dismissed_add(&dismissed, &proc, 0);
	ends(&was);
}

Test(launch_dismissed, who_was_never_started_is_nothing)
{
	struct proc none = {.pidfd = -1};
	dismissed_add(&dismissed, &none, 1000);
	cr_expect_eq(dismissed.n, 0);
	cr_expect_eq(dismissed_next(&dismissed), UINT64_MAX);
	cr_expect_not(dismissed_reap(&dismissed, getpid()));
}
