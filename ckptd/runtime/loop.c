#include "runtime/loop.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"

#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>

enum { LOOP_BATCH = 64, LOOP_IDLE_MS = 1000 };

/* Who is heard later than this is told so in the log: nothing on the loop's thread may wait. */
#define LOOP_SLOW_NS (50 * CLOCK_NS_PER_MS)

struct watch {
	struct loop *loop;
	int fd;
	watch_fn *fn;
	void *arg;
	struct list link;
};

struct loop {
	int epoll;
	bool stopped, rests;
	unsigned tick_ms;
	uint64_t next_tick;
	tick_fn *tick;
	void *tick_arg;
	tick_fn *after;
	void *after_arg;
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

void loop_after_each(struct loop *loop, tick_fn *fn, void *arg)
{
	loop->after = fn;
	loop->after_arg = arg;
}

void loop_soon(struct loop *loop, unsigned ms)
{
	loop->next_tick = min_u64(loop->next_tick, clock_deadline(ms * CLOCK_NS_PER_MS));
}

void loop_rest(struct loop *loop, unsigned ms)
{
	loop->next_tick = clock_deadline(ms * CLOCK_NS_PER_MS);
	loop->rests = true;
}

static void stir(struct loop *loop)
{
	if (loop->rests)
		loop_soon(loop, loop->tick_ms);
	loop->rests = false;
}

static void run_tick(struct loop *loop)
{
	if (!loop->tick || clock_now() < loop->next_tick)
		return;
	loop->rests = false;
	loop->next_tick = clock_deadline(loop->tick_ms * CLOCK_NS_PER_MS);
	loop->tick(loop->tick_arg);
}

static void run_after(const struct loop *loop)
{
	if (loop->after)
		loop->after(loop->after_arg);
}

/* When a turn began, and what the thread had used until then. */
struct turn {
	uint64_t begun, cpu_ns;
	long waits;
};

static struct turn turn_begin(void)
{
	struct turn t = {.begun = clock_now()};
	struct rusage usage;
	if (log_get_level() >= LOG_DEBUG && !getrusage(RUSAGE_THREAD, &usage)) {
		t.cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * CLOCK_NS_PER_S +
			   (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
		t.waits = usage.ru_nvcsw;
	}
	return t;
}

/* The turn of fd, or of the tick (-1), is over. Waits tell a call that blocked from a busy machine. Returns the next turn. */
static struct turn turn_end(const struct turn *t, int fd)
{
	struct turn now = turn_begin();
	if (now.begun - t->begun > LOOP_SLOW_NS)
		log_debug("the loop was kept for %.0f ms, %.0f ms of them at work, %ld waits: %s %d",
			  (double)(now.begun - t->begun) / 1e6, (double)(now.cpu_ns - t->cpu_ns) / 1e6,
			  now.waits - t->waits, fd < 0 ? "tick" : "descriptor", fd);
	return now;
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
		struct turn turn = turn_begin();
		for (int i = 0; i < n; i++) {
			struct watch *watch = events[i].data.ptr;
			int fd = watch->fd;
			if (watch->fn)
				watch->fn(watch->arg, events[i].events);
			run_after(loop);
			turn = turn_end(&turn, fd);
		}
		if (n > 0)
			stir(loop);
		run_tick(loop);
		run_after(loop);
		turn_end(&turn, -1);
		bury(&loop->removed);
	}
	return 0;
}

void loop_stop(struct loop *loop)
{
	loop->stopped = true;
}
