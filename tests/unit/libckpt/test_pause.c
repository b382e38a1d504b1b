/* The fence of a save with which the world changes. */
#include "ranks.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct ranks c;
static ckpt_snapshot *snap;
static pthread_t thread;
static int answer;
static char sentence[512];

static void *fence(void *arg)
{
	(void)arg;
	answer = ckpt_fence(snap, NULL);
	snprintf(sentence, sizeof(sentence), "%s", ckpt_error(c.s[0]));
	return NULL;
}

static void begin(int timeout_ms)
{
	ckpt_options o = CKPT_INIT(ckpt_options);
	o.timeout_ms = timeout_ms;
	ranks_up(&c, 1, &o);
	cr_assert_eq(ckpt_begin(c.s[0], 10, CKPT_MEMORY, NULL, &snap), 0);
	cr_assert(fake_rang(c.f));
}

static void set_pause(uint64_t step)
{
	atomic_store(&fake_head(c.f, 0)->pause, step);
	fake_wake(c.f);
}

/* In the fence of step 10, which has done all but wait. */
static void begin_to_wait(void)
{
	begin(0);
	set_pause(10);
	cr_assert_eq(pthread_create(&thread, NULL, fence, NULL), 0);
	cr_assert(fake_rang(c.f));
	cr_assert_eq(fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 10)].fenced, 1, "the save waits for nothing");
}

static void end(int due)
{
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_eq(answer, due, "%d: %s", answer, sentence);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(pause, the_fence_waits_for_the_next_epoch)
{
	begin_to_wait();
	fake_publish(c.f, &(struct fake_level){.id = {10, 1}, .level = LEVEL_CAPTURED});
	fake_epoch(c.f, 2, "the world changes");
	end(-ESTALE);
	cr_expect(strstr(sentence, "call ckpt_join"), "%s", sentence);
}

Test(pause, that_is_called_off)
{
	begin_to_wait();
	set_pause(0);
	end(0);
}

Test(pause, a_later_save_is_the_one)
{
	begin_to_wait();
	set_pause(11);
	end(0);
}

Test(pause, a_save_that_fails_changes_nothing)
{
	begin_to_wait();
	fake_publish(c.f, &(struct fake_level){.id = {10, 1}, .error = -EBADMSG});
	end(0);
}

Test(pause, one_that_only_stays_in_memory_is_as_good_as_any)
{
	begin_to_wait();
	fake_publish(c.f, &(struct fake_level){.id = {10, 1}, .level = LEVEL_CAPTURED, .error = -EOPNOTSUPP});
	fake_epoch(c.f, 2, "the world changes");
	end(-ESTALE);
}

Test(pause, nobody_waits_for_a_daemon_that_is_gone)
{
	begin_to_wait();
	fake_die(c.f);
	end(0);
}

Test(pause, it_has_a_deadline)
{
	begin(300);
	set_pause(10);
	uint64_t before = clock_now();
	cr_expect_eq(ckpt_fence(snap, NULL), 0);
	cr_expect_geq(clock_now() - before, 300 * CLOCK_NS_PER_MS);
	cr_expect_leq(clock_now() - before, 20 * CLOCK_NS_PER_S);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(pause, an_earlier_save_is_not_waited_in)
{
	begin(60000);
	set_pause(11);
	uint64_t before = clock_now();
	cr_expect_eq(ckpt_fence(snap, NULL), 0);
	cr_expect_leq(clock_now() - before, 20 * CLOCK_NS_PER_S);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}
