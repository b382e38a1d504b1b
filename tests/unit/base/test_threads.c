#include "base/threads.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

struct meeting {
	pthread_barrier_t barrier;
	_Atomic unsigned calls, deaf;
	pthread_t caller;
};

static void meet(void *arg)
{
	struct meeting *m = arg;
	sigset_t mask;
	atomic_fetch_add(&m->calls, 1);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (!pthread_equal(pthread_self(), m->caller) && sigismember(&mask, SIGTERM) && !sigismember(&mask, SIGSEGV))
		atomic_fetch_add(&m->deaf, 1);
	pthread_barrier_wait(&m->barrier);
}

Test(threads, run_at_once_and_the_caller_is_one)
{
	struct meeting m = {.caller = pthread_self()};
	sigset_t mask;
	cr_assert_eq(pthread_barrier_init(&m.barrier, NULL, 4), 0);
	threads_run(4, meet, &m);
	cr_expect_eq(m.calls, 4);
	cr_expect_eq(m.deaf, 3);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	cr_expect_not(sigismember(&mask, SIGTERM), "the caller's mask came back");
	pthread_barrier_destroy(&m.barrier);
}

static void count(void *arg)
{
	struct meeting *m = arg;
	atomic_fetch_add(&m->calls, 1);
	atomic_fetch_add(&m->deaf, !pthread_equal(pthread_self(), m->caller));
}

Test(threads, one_and_none_are_the_caller_alone)
{
	for (unsigned n = 0; n < 2; n++) {
		struct meeting m = {.caller = pthread_self()};
		threads_run(n, count, &m);
		cr_expect_eq(m.calls, 1);
		cr_expect_eq(m.deaf, 0);
	}
}

Test(threads, too_many_are_cut)
{
	struct meeting m = {.caller = pthread_self()};
	threads_run(1000, count, &m);
	cr_expect_eq(m.calls, 64);
}

Test(threads, default_is_what_this_process_may_use)
{
	cpu_set_t all, one;
	cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	cr_expect_eq(threads_default(1), 1);
	cr_expect_eq(threads_default(4096), (unsigned)CPU_COUNT(&all));
	CPU_ZERO(&one);
	for (unsigned cpu = 0; !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	cr_expect_eq(threads_default(8), 1);
}
