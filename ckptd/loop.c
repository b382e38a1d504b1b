#include "loop.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"

#include <stdbool.h>
#include <sys/epoll.h>

enum { LOOP_BATCH = 64, LOOP_IDLE_MS = 1000 };

struct watch {
	struct loop *loop;
	int fd;
	watch_fn *fn;
	void *arg;
	struct list link;
};

struct loop {
	int epoll;
	bool stopped;
	unsigned tick_ms;
	uint64_t next_tick;
	tick_fn *tick;
	void *tick_arg;
	struct list watches;
	struct list removed; /* freed after the batch: an event of it may still be in the batch */
};

int loop_new(struct loop **out, struct err *err)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	if (!loop)
		return err_set(err, -ENOMEM, "no memory for the event loop");
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0) {
		int rc = -errno;
		free(loop);
		return err_set(err, rc, "epoll_create1: %s", err_name(rc));
	}
	list_init(&loop->watches);
	list_init(&loop->removed);
	*out = loop;
	return 0;
}

static void bury(struct list *dead)
{
	for (struct list *node; (node = list_pop(dead));)
		free(list_entry(node, struct watch, link));
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	bury(&loop->watches);
	bury(&loop->removed);
	close(loop->epoll);
	free(loop);
}

struct watch *loop_watch(struct loop *loop, int fd, uint32_t events, watch_fn *fn, void *arg)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return NULL;
	*watch = (struct watch){.loop = loop, .fd = fd, .fn = fn, .arg = arg};
	struct epoll_event event = {.events = events, .data.ptr = watch};
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
		free(watch);
		return NULL;
	}
	list_push(&loop->watches, &watch->link);
	return watch;
}

int watch_modify(struct watch *watch, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	return epoll_ctl(watch->loop->epoll, EPOLL_CTL_MOD, watch->fd, &event) < 0 ? -errno : 0;
}

void watch_remove(struct watch *watch)
{
	if (!watch || !watch->fn)
		return;
	epoll_ctl(watch->loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->fn = NULL;
	list_remove(&watch->link);
	list_push(&watch->loop->removed, &watch->link);
}

void loop_tick(struct loop *loop, unsigned ms, tick_fn *fn, void *arg)
{
	loop->tick = fn;
	loop->tick_arg = arg;
	if (loop->tick_ms == ms)
		return;
	loop->tick_ms = ms;
	loop->next_tick = clock_deadline(ms * CLOCK_NS_PER_MS);
}

static void run_tick(struct loop *loop)
{
	if (!loop->tick || clock_now() < loop->next_tick)
		return;
	loop->next_tick = clock_deadline(loop->tick_ms * CLOCK_NS_PER_MS);
	loop->tick(loop->tick_arg);
}

int loop_run(struct loop *loop)
{
	loop->stopped = false;
	while (!loop->stopped) {
		struct epoll_event events[LOOP_BATCH];
		int timeout = loop->tick ? clock_ms_until(loop->next_tick) : LOOP_IDLE_MS;
		int n = epoll_wait(loop->epoll, events, LOOP_BATCH, timeout);
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++) {
			struct watch *watch = events[i].data.ptr;
			if (watch->fn)
				watch->fn(watch->arg, events[i].events);
		}
		run_tick(loop);
		bury(&loop->removed);
	}
	return 0;
}

void loop_stop(struct loop *loop)
{
	loop->stopped = true;
}
