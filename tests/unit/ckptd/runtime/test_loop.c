#include "runtime/loop.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct loop *loop;
static int a, b, calls, ticks, after;
static struct watch *watch_a, *watch_b;

static void setup(void)
{
	struct err err = {{0}};
	cr_assert_eq(loop_new(&loop, &err), 0, "%s", err.text);
	a = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	b = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	cr_assert(a >= 0 && b >= 0);
	calls = ticks = after = 0;
}

static void teardown(void)
{
	loop_free(loop);
	close(a);
	close(b);
}

TestSuite(loop, .init = setup, .fini = teardown);

static void ring(int fd)
{
	cr_assert_eq(eventfd_write(fd, 1), 0);
}

static void stop_after_tick(void *arg)
{
	(void)arg;
	ticks++;
	loop_stop(loop);
}

static void drain(void *arg, uint32_t events)
{
	eventfd_t count;
	cr_assert(events & EPOLLIN);
	eventfd_read(*(int *)arg, &count);
	calls++;
	loop_stop(loop);
}

Test(loop, a_ready_descriptor_is_told)
{
	cr_assert(loop_watch(loop, a, EPOLLIN, drain, &a));
	ring(a);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(calls, 1);
}

Test(loop, a_watch_that_was_removed_is_not_called)
{
	watch_remove(loop_watch(loop, a, EPOLLIN, drain, &a));
	ring(a);
	loop_tick(loop, 20, stop_after_tick, NULL);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(calls, 0);
	cr_assert_eq(ticks, 1);
}

static void hasten(void *arg, uint32_t events)
{
	eventfd_t count;
	(void)events;
	eventfd_read(*(int *)arg, &count);
	loop_soon(loop, 1);
	loop_soon(loop, 600000); /* never later */
}

Test(loop, what_has_begun_hastens_the_next_tick)
{
	uint64_t before = clock_now();
	cr_assert(loop_watch(loop, a, EPOLLIN, hasten, &a));
	loop_tick(loop, 300000, stop_after_tick, NULL);
	ring(a);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(ticks, 1);
	cr_assert_lt(clock_now() - before, 60 * CLOCK_NS_PER_S);
}

enum { PACE_MS = 5, REST_MS = 100 };

static void rest_once(void *arg)
{
	loop_rest(loop, *(unsigned *)arg);
	if (++ticks == 2)
		loop_stop(loop);
}

Test(loop, a_loop_that_rests_ticks_later_than_at_its_pace)
{
	unsigned rest_ms = REST_MS;
	uint64_t begun = clock_now();
	loop_tick(loop, PACE_MS, rest_once, &rest_ms);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_geq(clock_now() - begun, (PACE_MS + REST_MS - 2) * CLOCK_NS_PER_MS);
}

static void ring_and_rest(void *arg)
{
	rest_once(arg);
	ring(a);
}

static void note_call(void *arg, uint32_t events)
{
	eventfd_t count;
	(void)events;
	eventfd_read(*(int *)arg, &count);
	calls++;
}

Test(loop, what_happens_ends_the_rest)
{
	unsigned rest_ms = 300000;
	uint64_t begun = clock_now();
	cr_assert(loop_watch(loop, a, EPOLLIN, note_call, &a));
	loop_tick(loop, PACE_MS, ring_and_rest, &rest_ms);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(calls, 1);
	cr_assert_lt(clock_now() - begun, 60 * CLOCK_NS_PER_S);
}

static void remove_both(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	calls++;
	watch_remove(watch_a);
	watch_remove(watch_b);
}

/* Both are ready: the events of both stand in one batch. */
Test(loop, a_callback_may_remove_itself_and_others_of_its_batch)
{
	watch_a = loop_watch(loop, a, EPOLLIN, remove_both, NULL);
	watch_b = loop_watch(loop, b, EPOLLIN, remove_both, NULL);
	cr_assert(watch_a && watch_b);
	ring(a);
	ring(b);
	loop_tick(loop, 20, stop_after_tick, NULL);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(calls, 1);
}

static void replace(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	calls++;
	watch_remove(watch_a);
	watch_a = loop_watch(loop, a, EPOLLIN, drain, &a);
	cr_assert(watch_a);
}

Test(loop, a_callback_may_watch_its_descriptor_anew)
{
	watch_a = loop_watch(loop, a, EPOLLIN, replace, NULL);
	ring(a);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(calls, 2);
}

static void faster(void *arg)
{
	(void)arg;
	if (++ticks == 5)
		loop_stop(loop);
	loop_tick(loop, 2, faster, NULL);
}

Test(loop, the_pace_of_the_tick_can_be_changed_in_it)
{
	uint64_t begun = clock_now();
	loop_tick(loop, 10, faster, NULL);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(ticks, 5);
	cr_assert_geq(clock_now() - begun, (10 + 4 * 2 - 1) * CLOCK_NS_PER_MS);
}

/* A descriptor that is always ready must not starve the tick. */
static void busy(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	calls++;
}

Test(loop, the_tick_comes_while_a_descriptor_stays_ready)
{
	cr_assert(loop_watch(loop, a, EPOLLIN, busy, NULL));
	ring(a);
	loop_tick(loop, 5, stop_after_tick, NULL);
	cr_assert_eq(loop_run(loop), 0);
	cr_assert_eq(ticks, 1);
	cr_assert_gt(calls, 0);
}

Test(loop, a_descriptor_that_cannot_be_watched_is_refused)
{
	cr_assert_null(loop_watch(loop, -1, EPOLLIN, busy, NULL));
}

static void note(void *arg)
{
	(void)arg;
	cr_assert(calls + ticks, "nothing has been called yet");
	after++;
}

Test(loop, what_comes_after_each_call_follows_at_once)
{
	cr_assert(loop_watch(loop, a, EPOLLIN, drain, &a) && loop_watch(loop, b, EPOLLIN, drain, &b));
	loop_after_each(loop, note, NULL);
	ring(a);
	ring(b);
	cr_assert_eq(loop_run(loop), 0);
	cr_expect(calls == 2 && after == 3, "two descriptors and a tick: %d", after);
}
