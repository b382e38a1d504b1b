/* An engine of threads with ordinary system calls, for where io_uring is forbidden. A thread is started when a request finds none
 * idle, up to as many as transfers are in flight and some more, so that a small operation does not wait for large ones. */
#include "store/disk/disk_real.h"

#include "base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS_MAX = DISK_DEPTH + 4 };

struct threads {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct list waiting, done; /* chunks */
	unsigned n, idle, backlog; /* backlog: chunks in `waiting` */
	bool stop;
	int event_fd;
	pthread_t ids[THREADS_MAX];
};

static int carry_out(const struct request *r)
{
	switch (r->kind) {
	case DISK_MKDIR:
		return mkdirat(r->dir, r->name, (mode_t)r->flags);
	case DISK_OPEN:
		return openat(r->dir, r->name, r->flags, 0664);
	case DISK_WRITE:
		return (int)pwrite(r->file, r->buf, r->len, (off_t)r->offset);
	case DISK_READ:
		return (int)pread(r->file, r->buf, r->len, (off_t)r->offset);
	case DISK_FSYNC:
		return fsync(r->file);
	case DISK_ALLOCATE:
		return fallocate(r->file, 0, 0, (off_t)r->len);
	case DISK_LINK:
		return linkat(r->dir, r->name, r->dir2, r->name2, 0);
	case DISK_RENAME:
		return renameat(r->dir, r->name, r->dir2, r->name2);
	case DISK_UNLINK:
	case DISK_RMDIR:
		return unlinkat(r->dir, r->name, r->flags);
	case DISK_CLOSE:
		return close(r->file);
	case DISK_TRUNCATE:
		return ftruncate(r->file, (off_t)r->offset);
	}
	errno = EINVAL;
	return -1;
}

static void tell(struct threads *t)
{
	uint64_t one = 1;
	/* Fails only when the counter is full: then it is readable already. */
	ssize_t ignored = write(t->event_fd, &one, sizeof(one));
	(void)ignored;
}

static void *serve(void *arg)
{
	struct threads *t = arg;
	pthread_mutex_lock(&t->lock);
	for (;;) {
		while (list_empty(&t->waiting) && !t->stop) {
			t->idle++;
			pthread_cond_wait(&t->work, &t->lock);
			t->idle--;
		}
		if (list_empty(&t->waiting))
			break;
		struct chunk *c = list_entry(list_pop(&t->waiting), struct chunk, link);
		t->backlog--;
		pthread_mutex_unlock(&t->lock);
		int rc = carry_out(&c->request);
		c->res = rc < 0 ? -errno : rc;
		pthread_mutex_lock(&t->lock);
		list_push(&t->done, &c->link);
		tell(t);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* With the lock held. Signals are for the other threads of the process. */
static int start_thread(struct threads *t)
{
	sigset_t all, was;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	int rc = pthread_create(&t->ids[t->n], NULL, serve, t);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	t->n += !rc;
	return -rc;
}

static int threads_open(struct disk *d, struct err *err)
{
	struct threads *t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "no memory for threads that read and write");
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	list_init(&t->waiting);
	list_init(&t->done);
	t->event_fd = d->event_fd;
	d->engine_state = t;
	d->truncates = true;
	/* The first one at once: later ones may be refused, and nothing hangs. */
	int rc = start_thread(t);
	if (!rc)
		return 0;
	pthread_cond_destroy(&t->work);
	pthread_mutex_destroy(&t->lock);
	free(t);
	return err_set(err, rc, "cannot start a thread that reads and writes: %s", err_name(rc));
}

static void threads_close(struct disk *d)
{
	struct threads *t = d->engine_state;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < t->n; i++)
		pthread_join(t->ids[i], NULL);
	pthread_cond_destroy(&t->work);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static void threads_issue(struct disk *d, struct chunk *c)
{
	struct threads *t = d->engine_state;
	pthread_mutex_lock(&t->lock);
	list_push(&t->waiting, &c->link);
	t->backlog++;
	if (t->backlog > t->idle && t->n < THREADS_MAX)
		start_thread(t);
	pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
}

static void threads_enter(struct disk *d)
{
	(void)d; /* begun when they were issued */
}

static struct chunk *threads_reap(struct disk *d)
{
	struct threads *t = d->engine_state;
	pthread_mutex_lock(&t->lock);
	struct list *link = list_pop(&t->done);
	pthread_mutex_unlock(&t->lock);
	return link ? list_entry(link, struct chunk, link) : NULL;
}

static void threads_wait(struct disk *d, uint64_t ns)
{
	struct pollfd p = {.fd = d->event_fd, .events = POLLIN};
	struct timespec ts = {.tv_sec = (time_t)(ns / CLOCK_NS_PER_S), .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
	ppoll(&p, 1, &ts, NULL);
}

static int threads_table(struct disk *d, unsigned entries)
{
	(void)d;
	(void)entries;
	return -ENOTSUP;
}

const struct engine engine_threads = {
	.name = "threads",
	.open = threads_open,
	.close = threads_close,
	.issue = threads_issue,
	.enter = threads_enter,
	.reap = threads_reap,
	.wait = threads_wait,
	.table = threads_table,
};
