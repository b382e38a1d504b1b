#include "common/errand.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/deadline.h"

/* Shared by the caller and the thread; who leaves last frees it. */
struct errand {
	void (*run)(void *argument), (*late)(void *argument);
	void *argument;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool done, left; /* left: the caller does not wait any more */
};

static void free_errand(struct errand *e)
{
	pthread_cond_destroy(&e->ended);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

static void *carry_out(void *argument)
{
	struct errand *e = argument;
	bool left;

	e->run(e->argument);
	pthread_mutex_lock(&e->lock);
	e->done = true;
	left = e->left;
	pthread_cond_signal(&e->ended);
	pthread_mutex_unlock(&e->lock);
	if (!left)
		return NULL;
	if (e->late)
		e->late(e->argument);
	free_errand(e);
	return NULL;
}

static struct errand *make(void (*run)(void *argument), void *argument, void (*late)(void *argument))
{
	struct errand *e = calloc(1, sizeof(*e));
	pthread_condattr_t attributes;

	if (!e)
		return NULL;
	e->run = run;
	e->argument = argument;
	e->late = late;
	pthread_mutex_init(&e->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&e->ended, &attributes);
	pthread_condattr_destroy(&attributes);
	return e;
}

/* Detached, and blind to signals, which are the training thread's. */
static int start(struct errand *e)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attributes, carry_out, e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -rc;
}

/* Between two calls of whoever is to be told that it is waited for. */
enum { SLICE_NS = 100000000 };

static bool await(struct errand *e, int64_t deadline, const struct errand_waiting *w)
{
	bool done;
	int rc = 0;

	pthread_mutex_lock(&e->lock);
	while (!e->done && rc == 0) {
		int64_t soon = monotonic_ns() + SLICE_NS, next = w && soon < deadline ? soon : deadline;
		struct timespec until = {next / 1000000000, next % 1000000000};

		rc = pthread_cond_timedwait(&e->ended, &e->lock, &until);
		if (rc != ETIMEDOUT || next == deadline)
			continue;
		rc = 0;
		pthread_mutex_unlock(&e->lock);
		w->waiting(w->self);
		pthread_mutex_lock(&e->lock);
	}
	done = e->done;
	e->left = !done;
	pthread_mutex_unlock(&e->lock);
	return done;
}

int errand_run(void (*run)(void *argument), void *argument, int64_t deadline)
{
	return errand_run_while(run, argument, deadline, NULL, NULL);
}

int errand_run_while(void (*run)(void *argument), void *argument, int64_t deadline, const struct errand_waiting *w,
		     void (*late)(void *argument))
{
	struct errand *e = make(run, argument, late);
	int rc = e ? start(e) : -ENOMEM;

	if (rc == 0 && !await(e, deadline, w))
		return -ETIMEDOUT; /* the thread frees it, should it ever come back */
	if (e)
		free_errand(e);
	return rc;
}
