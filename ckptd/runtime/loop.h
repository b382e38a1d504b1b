/* The event loop: one thread, epoll. Everything in ckptd but the workers runs on it. */
#ifndef CKPTD_RUNTIME_LOOP_H
#define CKPTD_RUNTIME_LOOP_H

#include "base/err.h"

#include <stdint.h>

struct loop;
struct watch;

typedef void watch_fn(void *arg, uint32_t events);
typedef void tick_fn(void *arg);

int loop_new(struct loop **out, struct err *err);
void loop_free(struct loop *loop);

/* Calls fn(arg, EPOLL… events) while fd is ready. The descriptor stays the caller's. NULL without memory or descriptors. */
struct watch *loop_watch(struct loop *loop, int fd, uint32_t events, watch_fn *fn, void *arg);
/* Changes the events that are waited for. 0 or -errno. */
int watch_modify(struct watch *watch, uint32_t events);
/* May be called from any callback, also the watch's own; NULL is allowed. */
void watch_remove(struct watch *watch);

/* Calls fn about every `ms` milliseconds; a later call replaces the pace, not the function. */
void loop_tick(struct loop *loop, unsigned ms, tick_fn *fn, void *arg);
/* Calls fn after each callback of a watch, and after each tick. */
void loop_after_each(struct loop *loop, tick_fn *fn, void *arg);
/* The next tick comes within `ms`, whatever the pace: something has begun that only ticks carry on. */
void loop_soon(struct loop *loop, unsigned ms);
/* Of a tick: nothing is under way, and the next one may be as late as `ms`. Where a descriptor is ready before, it comes
 * at its pace after that. */
void loop_rest(struct loop *loop, unsigned ms);

/* Runs until loop_stop. 0 or -errno of epoll. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

#endif
