#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum { THREADS_MAX = 64 };

struct call {
	void (*fn)(void *arg);
	void *arg;
};

static void *begin(void *arg)
{
	const struct call *call = arg;
	call->fn(call->arg);
	return NULL;
}

unsigned threads_default(unsigned most)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
	return n < 1 || !most ? 1 : (unsigned)n < most ? (unsigned)n : most;
}

/* A new thread inherits the mask of the one that starts it. */
static void mask_signals(sigset_t *former)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	sigset_t mask;
	sigfillset(&mask);
	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&mask, own[i]);
	pthread_sigmask(SIG_SETMASK, &mask, former);
}

void threads_run(unsigned n, void (*fn)(void *arg), void *arg)
{
	pthread_t threads[THREADS_MAX];
	struct call call = {fn, arg};
	unsigned started = 0;
	sigset_t former;
	mask_signals(&former);
	while (started + 1 < n && started < THREADS_MAX - 1 &&
	       pthread_create(&threads[started], NULL, begin, &call) == 0)
		started++;
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	fn(arg);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}
