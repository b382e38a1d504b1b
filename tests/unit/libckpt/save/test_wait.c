#include "base/clock.h"
#include "base/failpoint.h"
#include "libckpt/ranks.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

static ckpt_snapshot *begun(struct ranks *c, uint64_t step, ckpt_target target)
{
	ckpt_snapshot *snap;
	ranks_up(c, 1, NULL);
	cr_assert_eq(ckpt_begin(c->s[0], step, target, NULL, &snap), 0, "%s", ckpt_error(c->s[0]));
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	return snap;
}

static void publish(struct ranks *c, uint64_t step, int level, int error)
{
	fake_publish(c->f, &(struct fake_level){.id = {step, 1}, .level = level, .error = error});
}

Test(wait, levels_rise_and_are_reached)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	cr_assert_eq(ckpt_poll(snap), CKPT_PENDING);
	publish(&c, 120, LEVEL_CAPTURED, 0);
	cr_assert_eq(ckpt_poll(snap), CKPT_CAPTURED);
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 0), 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 0), -ETIMEDOUT);
	publish(&c, 120, LEVEL_VERIFIED, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 0), 0, "a higher level contains the lower ones");
	cr_assert_eq(ckpt_wait(snap, CKPT_VERIFIED, 0), 0);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

static void *publish_later(void *arg)
{
	struct ranks *c = arg;
	publish(c, 120, LEVEL_CAPTURED, 0);
	publish(c, 120, LEVEL_DURABLE, 0);
	return NULL;
}

static uint64_t wait_for_publisher(void)
{
	struct ranks c;
	pthread_t thread;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	uint64_t t = clock_now();
	cr_assert_eq(pthread_create(&thread, NULL, publish_later, &c), 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 20000), 0);
	t = clock_now() - t;
	pthread_join(thread, NULL);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
	return t;
}

Test(wait, a_sleeper_is_woken)
{
	uint64_t best = UINT64_MAX;
	/* By the futex, not by the second that bounds each sleep; a busy machine gets three tries. */
	for (int i = 0; i < 3 && best >= 900 * CLOCK_NS_PER_MS; i++)
		best = min_u64(best, wait_for_publisher());
	cr_assert_lt(best, 900 * CLOCK_NS_PER_MS);
}

/* Of a wait that runs out after two heartbeats. */
static uint64_t beat_after(struct ranks *c, ckpt_snapshot *snap)
{
	struct arena_head *head = fake_head(c->f, 0);
	uint64_t before = head->flight.beat_ns;
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 600), -ETIMEDOUT);
	return head->flight.beat_ns - before;
}

static void *beat_once(void *arg)
{
	ckpt_beat(arg, 121, CKPT_PHASE_SAVE);
	return NULL;
}

Test(wait, of_who_gives_heartbeats_is_one_and_that_of_another_thread_is_none)
{
	struct ranks c;
	pthread_t other;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	cr_expect_eq(beat_after(&c, snap), 0, "nobody has ever given one");
	ckpt_beat(c.s[0], 120, CKPT_PHASE_SAVE);
	cr_expect_geq(beat_after(&c, snap), 200 * CLOCK_NS_PER_MS);
	cr_expect_eq(fake_head(c.f, 0)->flight.step, 120);
	cr_assert_eq(pthread_create(&other, NULL, beat_once, c.s[0]), 0);
	pthread_join(other, NULL);
	cr_expect_eq(beat_after(&c, snap), 0, "the thread that computes may hang all the same");
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

/* Since the heartbeat with which a save was begun whose copy takes longer than two of them. */
static uint64_t beat_in_slow_copy(int (*call)(ckpt_snapshot *snap, struct ranks *c))
{
	struct ranks c;
	ckpt_snapshot *snap;
	struct err err;
	ranks_up(&c, 1, NULL);
	struct arena_head *head = fake_head(c.f, 0);
	cr_assert_eq(failpoint_arm("device.copy=delay:700@1", &err), 0, "%s", err.text);
	ckpt_beat(c.s[0], 120, CKPT_PHASE_SAVE);
	uint64_t before = head->flight.beat_ns;
	cr_assert_eq(ckpt_begin(c.s[0], 120, CKPT_MEMORY, NULL, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(call(snap, &c), 0);
	uint64_t passed = head->flight.beat_ns - before;
	ckpt_snapshot_free(snap);
	ranks_down(&c);
	return passed;
}

static int fence(ckpt_snapshot *snap, struct ranks *c)
{
	(void)c;
	return ckpt_fence(snap, NULL);
}

static int close_it(ckpt_snapshot *snap, struct ranks *c)
{
	(void)snap;
	int rc = ckpt_close(c->s[0]);
	c->s[0] = NULL;
	return rc;
}

static int fence_behind_the_epoch(ckpt_snapshot *snap, struct ranks *c)
{
	fake_epoch_quietly(c->f, 2);
	return ckpt_fence(snap, NULL) == -ESTALE ? 0 : -EPROTO;
}

/* On a busy machine the copy may have ended before it is waited for. */
static uint64_t longest_beat(int (*call)(ckpt_snapshot *snap, struct ranks *c))
{
	uint64_t best = 0;
	for (int i = 0; i < 3 && best < 400 * CLOCK_NS_PER_MS; i++)
		best = max_u64(best, beat_in_slow_copy(call));
	return best;
}

Test(wait, one_for_the_copy_gives_heartbeats)
{
	cr_expect_geq(longest_beat(fence), 400 * CLOCK_NS_PER_MS);
	cr_expect_geq(longest_beat(fence_behind_the_epoch), 400 * CLOCK_NS_PER_MS);
	cr_expect_geq(longest_beat(close_it), 400 * CLOCK_NS_PER_MS);
}

Test(wait, a_deadline_names_who_is_late)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 20), -ETIMEDOUT);
	cr_assert_str_eq(ckpt_error(c.s[0]), "step 120: not durable after 20 ms: waiting for the daemon");
	fake_publish(c.f, &(struct fake_level){.id = {120, 1}, .late_rank = 2, .late_phase = LATE_FENCE});
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 20), -ETIMEDOUT);
	cr_assert_str_eq(ckpt_error(c.s[0]), "step 120: not durable after 20 ms: waiting for rank 2 (fence)");
	publish(&c, 120, LEVEL_DURABLE, 0);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(wait, a_failure_brings_its_sentence)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	publish(&c, 120, LEVEL_CAPTURED, -ENOSPC);
	fake_event(c.f, (struct step_id){119, 1}, -EIO, "another one");
	fake_event(c.f, (struct step_id){120, 1}, -ENOSPC, "no space in /store: 3 GiB wanted");
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 0), 0, "that level was reached before");
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 5000), -ENOSPC);
	cr_assert(strstr(ckpt_error(c.s[0]), "no space in /store"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_poll(snap), -ENOSPC);
	cr_assert(strstr(ckpt_error(c.s[0]), "no space in /store"), "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(wait, the_failure_of_another_snapshot_is_not_its_own)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_MEMORY);
	for (uint64_t step = 1; step <= ARENA_STATUS; step++)
		publish(&c, step, LEVEL_CAPTURED, -EIO);
	cr_assert_eq(ckpt_poll(snap), CKPT_PENDING, "the daemon has not shown it yet: %s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 50), -ETIMEDOUT);
	publish(&c, 120, LEVEL_CAPTURED, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 5000), 0);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(wait, a_failure_without_a_sentence_is_still_an_error)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_MEMORY);
	publish(&c, 120, LEVEL_PENDING, -ECANCELED);
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 5000), -ECANCELED);
	cr_assert(strstr(ckpt_error(c.s[0]), "step 120: "), "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

static void *raise_epoch(void *arg)
{
	fake_epoch(((struct ranks *)arg)->f, 2, "rank 0 died");
	return NULL;
}

Test(wait, a_new_epoch_ends_the_wait)
{
	struct ranks c;
	pthread_t thread;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_MEMORY);
	cr_assert_eq(pthread_create(&thread, NULL, raise_epoch, &c), 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 20000), -ESTALE);
	pthread_join(thread, NULL);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(wait, what_was_reached_stays_reached_in_a_new_epoch)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_MEMORY);
	publish(&c, 120, LEVEL_CAPTURED, 0);
	fake_epoch(c.f, 2, "rank 0 died");
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 0), 0);
	cr_assert_eq(ckpt_poll(snap), CKPT_CAPTURED);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(wait, a_daemon_that_does_not_read_back_is_not_waited_for)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	fake_publish(c.f, &(struct fake_level){.id = {120, 1}, .level = LEVEL_DURABLE, .late_phase = LATE_VERIFY});
	cr_assert_eq(ckpt_wait(snap, CKPT_VERIFIED, 20), -ETIMEDOUT);
	cr_assert(strstr(ckpt_error(c.s[0]), "(verification)"), "%s", ckpt_error(c.s[0]));
	publish(&c, 120, LEVEL_DURABLE, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_VERIFIED, 20000), -EINVAL);
	cr_assert(strstr(ckpt_error(c.s[0]), "--no-verify"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_poll(snap), CKPT_DURABLE);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

static void *write_on(void *arg)
{
	struct ranks *c = arg;
	fake_await(c->f, WIRE_JOIN, 2);
	publish(c, 120, LEVEL_DURABLE, 0);
	return NULL;
}

Test(wait, a_complete_save_goes_on_in_a_new_epoch)
{
	struct ranks c;
	pthread_t thread;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	publish(&c, 120, LEVEL_CAPTURED, 0);
	fake_epoch(c.f, 2, "rank 0 died");
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 20000), -ESTALE, "others wait for this rank in ckpt_join");
	cr_assert(strstr(ckpt_error(c.s[0]), "call ckpt_join"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_poll(snap), CKPT_CAPTURED);
	cr_assert_eq(pthread_create(&thread, NULL, write_on, &c), 0);
	ranks_join(&c);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 20000), 0, "%s", ckpt_error(c.s[0]));
	pthread_join(thread, NULL);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(wait, what_is_poisoned_is_said_so)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	publish(&c, 120, LEVEL_PENDING, 0);
	fake_epoch(c.f, 2, "rank 0 died");
	cr_assert_eq(ckpt_poll(snap), CKPT_PENDING, "it may have been complete");
	publish(&c, 120, LEVEL_PENDING, -ESTALE);
	cr_assert_eq(ckpt_poll(snap), -ESTALE);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 20000), -ESTALE);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

static void *end_it(void *arg)
{
	struct ranks *c = arg;
	poll(NULL, 0, 50); /* most often the close waits by then; the outcome is the same */
	publish(c, 120, LEVEL_DURABLE, 0);
	return NULL;
}

Test(wait, close_waits_for_a_save_of_an_older_epoch)
{
	struct ranks c;
	pthread_t thread;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	publish(&c, 120, LEVEL_CAPTURED, 0);
	fake_epoch(c.f, 2, "rank 0 died");
	cr_assert_eq(pthread_create(&thread, NULL, end_it, &c), 0);
	cr_assert_eq(ckpt_close(c.s[0]), 0);
	c.s[0] = NULL;
	pthread_join(thread, NULL);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

/* What close makes of a save that is poisoned, or that nobody has seen, when the next epoch begins; the caller has let go of it. */
static int close_after_epoch(bool seen, bool join)
{
	struct ranks c;
	ckpt_snapshot_free(begun(&c, 120, CKPT_STORAGE));
	fake_epoch(c.f, 2, "rank 0 died");
	if (seen)
		publish(&c, 120, LEVEL_PENDING, -ESTALE);
	if (join)
		ranks_join(&c);
	int rc = ckpt_close(c.s[0]);
	c.s[0] = NULL;
	ranks_down(&c);
	return rc;
}

Test(wait, close_forgives_what_was_left_behind_in_an_epoch_that_is_over)
{
	cr_assert_eq(close_after_epoch(true, true), 0);
	cr_assert_eq(close_after_epoch(false, true), 0);
	cr_assert_eq(close_after_epoch(true, false), -ESTALE, "the others wait for it in ckpt_join");
	cr_assert_eq(close_after_epoch(false, false), -ESTALE, "the others wait for it in ckpt_join");
}

/* What close makes of a save of an epoch that is over, after the process has gone back to a step of it. */
static int close_after_restore(uint64_t step, int failure)
{
	struct ranks c;
	int rc;
	ckpt_snapshot *snap;
	ckpt_snapshot_free(begun(&c, 110, CKPT_MEMORY));
	cr_assert_eq(ckpt_begin(c.s[0], 120, CKPT_STORAGE, NULL, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	ckpt_snapshot_free(snap);
	publish(&c, 110, LEVEL_CAPTURED, 0);
	publish(&c, 120, LEVEL_CAPTURED, 0);
	fake_epoch(c.f, 2, "rank 0 died");
	ranks_join(&c);
	struct wire_restored m = {.step = step, .epoch = 1, .source = WIRE_FROM_MEMORY, .why = "x"};
	m.slots[0] = ranks_slot(&c, 0, step);
	fake_manners(c.f, &(struct fake_manners){.restored = m});
	ranks_restore(&c, CKPT_LATEST, &rc, NULL);
	cr_assert_eq(rc, 0, "%s", ckpt_error(c.s[0]));
	publish(&c, 120, LEVEL_CAPTURED, failure);
	rc = ckpt_close(c.s[0]);
	c.s[0] = NULL;
	ranks_down(&c);
	return rc;
}

Test(wait, close_does_not_forgive_the_save_that_the_process_went_on_from)
{
	cr_assert_eq(close_after_restore(120, -ECANCELED), -ECANCELED, "it is all that is left of the work");
	cr_assert_eq(close_after_restore(110, -ECANCELED), 0, "it was left behind");
	cr_assert_eq(close_after_restore(120, -EALREADY), 0, "it is on storage, as one of another epoch");
}

/* One save after the other, all let go of; what became of the last two. */
static int close_after_two(int earlier, int last)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ckpt_snapshot_free(begun(&c, 120, CKPT_STORAGE));
	cr_assert_eq(ckpt_begin(c.s[0], 130, CKPT_STORAGE, NULL, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	ckpt_snapshot_free(snap);
	publish(&c, 120, earlier ? LEVEL_CAPTURED : LEVEL_DURABLE, earlier);
	publish(&c, 130, last ? LEVEL_CAPTURED : LEVEL_DURABLE, last);
	int rc = ckpt_close(c.s[0]);
	c.s[0] = NULL;
	ranks_down(&c);
	return rc;
}

Test(wait, close_forgives_a_save_that_gave_way_to_one_on_storage)
{
	cr_assert_eq(close_after_two(-ECANCELED, 0), 0);
	cr_assert_eq(close_after_two(-EIO, 0), -EIO);
	cr_assert_eq(close_after_two(-ECANCELED, -ENOSPC), -ECANCELED, "neither is there: the first counts");
	cr_assert_eq(close_after_two(0, -ECANCELED), -ECANCELED, "nothing later is there");
}

Test(wait, levels_that_cannot_come_are_refused)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_MEMORY);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 0), -EINVAL);
	cr_assert_eq(ckpt_wait(snap, CKPT_VERIFIED, 0), -EINVAL);
	cr_assert_eq(ckpt_wait(snap, CKPT_REPLICATED, 0), -EINVAL);
	cr_assert_eq(ckpt_wait(snap, CKPT_PENDING, 0), -EINVAL);
	cr_assert_eq(ckpt_wait(snap, (ckpt_level)9, 0), -EINVAL);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

static ckpt_snapshot *begun_with_peers(struct ranks *c)
{
	ckpt_snapshot *snap;
	*c = (struct ranks){.f = fake_start(1), .world = 1};
	ckpt_options o = {.size = sizeof(o), .socket = fake_socket(c->f), .world = 1, .timeout_ms = 5000};
	fake_manners(c->f, &(struct fake_manners){.peers = true});
	cr_assert_eq(ckpt_open(&o, &c->s[0], NULL, 0), 0);
	ranks_register(c);
	ranks_join(c);
	cr_assert_eq(ckpt_begin(c->s[0], 120, CKPT_STORAGE, NULL, &snap), 0, "%s", ckpt_error(c->s[0]));
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	return snap;
}

Test(wait, copies_on_other_nodes_may_come_although_storage_has_failed)
{
	struct ranks c;
	ckpt_snapshot *snap = begun_with_peers(&c);
	fake_publish(c.f, &(struct fake_level){
				  .id = {120, 1}, .level = LEVEL_CAPTURED, .error = -ENOSPC, .late_phase = LATE_COPY});
	cr_assert_eq(ckpt_wait(snap, CKPT_REPLICATED, 0), -ETIMEDOUT);
	cr_assert_str_eq(ckpt_error(c.s[0]),
			 "step 120: not replicated after 0 ms: waiting for rank 0 (copies on other nodes)");
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 0), -ENOSPC);
	publish(&c, 120, LEVEL_REPLICATED, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_REPLICATED, 0), 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 0), -ETIMEDOUT);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(wait, what_is_overtaken_by_a_later_snapshot_never_gets_copies)
{
	struct ranks c;
	ckpt_snapshot *snap = begun_with_peers(&c);
	fake_publish(c.f, &(struct fake_level){.id = {120, 1}, .level = LEVEL_CAPTURED, .late_phase = LATE_COPY});
	cr_assert_eq(ckpt_wait(snap, CKPT_REPLICATED, 20), -ETIMEDOUT);
	publish(&c, 120, LEVEL_CAPTURED, 0);
	cr_assert_eq(ckpt_wait(snap, CKPT_REPLICATED, 20000), -ECANCELED);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(wait, close_waits_for_storage_and_returns_the_failure)
{
	struct ranks c;
	ckpt_snapshot *snap = begun(&c, 120, CKPT_STORAGE);
	ckpt_snapshot_free(snap);
	publish(&c, 120, LEVEL_CAPTURED, -EIO);
	fake_event(c.f, (struct step_id){120, 1}, -EIO, "the disk is gone");
	cr_assert_eq(ckpt_close(c.s[0]), -EIO);
	c.s[0] = NULL;
	ranks_down(&c);
}

Test(wait, close_is_bounded)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 1, &(ckpt_options){.size = sizeof(ckpt_options), .timeout_ms = 1000});
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_STORAGE, NULL, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	ckpt_snapshot_free(snap);
	cr_assert_eq(ckpt_close(c.s[0]), -ETIMEDOUT);
	c.s[0] = NULL;
	ranks_down(&c);
}
