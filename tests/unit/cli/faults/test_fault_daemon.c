#include "base/clock.h"
#include "faults/fault_request.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SIGNALS_MS = 5 };

static volatile sig_atomic_t interrupted;
static pid_t pid;
static int pidfd;

static void interrupt(int sig)
{
	(void)sig;
	interrupted++;
}

/* Calls that wait are interrupted again and again. */
static void setup(void)
{
	const struct itimerval each = {{0, SIGNALS_MS * 1000}, {0, SIGNALS_MS * 1000}};
	struct sigaction action = {.sa_handler = interrupt};

	cr_assert_eq(sigaction(SIGALRM, &action, NULL), 0);
	cr_assert_eq(setitimer(ITIMER_REAL, &each, NULL), 0);
}

static void teardown(void)
{
	const struct itimerval never = {0};

	setitimer(ITIMER_REAL, &never, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pidfd);
}

TestSuite(fault_daemon, .init = setup, .fini = teardown);

/* In place of a daemon. */
static void start(const char *seconds)
{
	char *const argv[] = {(char *)"sleep", (char *)seconds, NULL};

	cr_assert_eq(posix_spawnp(&pid, "sleep", NULL, NULL, argv, environ), 0);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	cr_assert_geq(pidfd, 0);
}

static struct fault_result await(uint32_t within_ms)
{
	const struct fault_entry entry = {.kind = FAULT_KILL_NODE, .fires_ms = within_ms};
	const struct fault_request q = {.entry = &entry};
	struct fault_result result = {.outcome = FAULT_FIRED};

	fault_await_daemon(&q, pidfd, &result);
	return result;
}

Test(fault_daemon, one_that_ends_has_fired_although_the_wait_is_interrupted)
{
	start("0.2");
	cr_expect_eq(await(60000).outcome, FAULT_FIRED);
	cr_expect_gt(interrupted, 1);
}

Test(fault_daemon, one_that_goes_on_has_not_fired_and_is_waited_for_until_the_deadline)
{
	uint64_t from = clock_now();

	start("1000");
	struct fault_result result = await(300);
	cr_expect_eq(result.outcome, FAULT_NOT_FIRED);
	cr_expect_str_eq(result.text, "the daemon has answered, and has not ended");
	cr_expect_geq(clock_now() - from, 300 * CLOCK_NS_PER_MS);
	cr_expect_lt(clock_now() - from, 30 * CLOCK_NS_PER_S);
	cr_expect_gt(interrupted, 1);
}
