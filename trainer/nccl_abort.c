#include "nccl_abort.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

/* Shared by the caller and the thread; who leaves last frees it. */
struct abortion {
	const struct nccl_table *table;
	void *comm;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool done, left; /* left: the caller does not wait any more */
};

static void free_abortion(struct abortion *a)
{
	pthread_cond_destroy(&a->ended);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static void *run(void *argument)
{
	struct abortion *a = argument;
	bool left;

	a->table->abort(a->comm);
	pthread_mutex_lock(&a->lock);
	a->done = true;
	left = a->left;
	pthread_cond_signal(&a->ended);
	pthread_mutex_unlock(&a->lock);
	if (left)
		free_abortion(a);
	return NULL;
}

static struct abortion *make(const struct nccl_table *table, void *comm)
{
	struct abortion *a = calloc(1, sizeof(*a));
	pthread_condattr_t attributes;

	if (!a)
		return NULL;
	a->table = table;
	a->comm = comm;
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&a->ended, &attributes);
	pthread_condattr_destroy(&attributes);
	return a;
}

/* Detached, and blind to signals, which are the training thread's. */
static int start(struct abortion *a)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attributes, run, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -rc;
}

static bool await(struct abortion *a, int64_t deadline)
{
	struct timespec until = {deadline / 1000000000, deadline % 1000000000};
	bool done;
	int rc = 0;

	pthread_mutex_lock(&a->lock);
	while (!a->done && rc == 0)
		rc = pthread_cond_timedwait(&a->ended, &a->lock, &until);
	done = a->done;
	a->left = !done;
	pthread_mutex_unlock(&a->lock);
	return done;
}

int nccl_abort(const struct nccl_table *table, void *comm, int64_t deadline)
{
	struct abortion *a = make(table, comm);
	int rc = a ? start(a) : -ENOMEM;

	if (rc == 0 && !await(a, deadline))
		return -ETIMEDOUT; /* the thread frees it, should it ever come back */
	if (a)
		free_abortion(a);
	return rc;
}
