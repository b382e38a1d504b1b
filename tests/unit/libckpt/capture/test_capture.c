#include "libckpt/ranks.h"

#include "client/session/session.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* A device layer whose captures end when the test says so. Both the host's and the "CUDA" one: two devices of one rank. */
struct plan {
	struct span *spans;
	size_t n;
	uint8_t *base;
	struct capture_target target;
	int refuse; /* launch fails with it */
	int fence;  /* fence answers it */
};

static struct plan *last_plan[2]; /* by device: host, cuda */
static unsigned launches[2];
static int refuse_launch[2], fence_answer[2];
static unsigned plan_flags[2];   /* of the last plan */
static bool no_spare;            /* staged plans are refused */
static uint32_t fenced_group[2]; /* by the last fence */
static int idle_answer[2];
static int refuse_rebind;
static const char *in_group[4]; /* of a, b, c, d; NULL: all in params */

struct device {
	int index;
};

static int dev_open(int ordinal, struct device **out, struct err *err)
{
	(void)err;
	*out = calloc(1, sizeof(**out));
	(*out)->index = ordinal == DEVICE_HOST ? 0 : 1;
	return 0;
}

static void dev_close(struct device *dev)
{
	free(dev);
}

static bool dev_digests(const struct device *dev)
{
	(void)dev;
	return true;
}

static int dev_attach(struct device *dev, void *base, size_t size, struct err *err)
{
	(void)dev, (void)base, (void)size, (void)err;
	return 0;
}

static void dev_detach(struct device *dev, void *base)
{
	(void)dev, (void)base;
}

static int dev_plan_new(struct device *dev, void *base, const struct span *spans, size_t n, uint64_t granule,
			unsigned flags, struct plan **out, struct err *err)
{
	(void)granule;
	if (flags & PLAN_STAGED && no_spare)
		return err_set(err, -ENOMEM, "no memory to stage in");
	plan_flags[dev->index] = flags;
	*out = calloc(1, sizeof(**out));
	(*out)->spans = calloc(n + 1, sizeof(*spans));
	memcpy((*out)->spans, spans, n * sizeof(*spans));
	(*out)->n = n;
	(*out)->base = base;
	(*out)->refuse = dev->index; /* which device, for launch */
	return 0;
}

static int dev_plan_rebind(struct plan *plan, const struct span *spans, size_t n, struct err *err)
{
	if (refuse_rebind)
		return err_set(err, refuse_rebind, "as the test wants");
	memcpy(plan->spans, spans, n * sizeof(*spans));
	return 0;
}

static void dev_plan_free(struct plan *plan)
{
	if (plan)
		free(plan->spans);
	free(plan);
}

static int dev_launch(struct plan *plan, void *stream, const struct capture_target *target, unsigned flags,
		      struct err *err)
{
	(void)stream, (void)flags;
	int index = plan->refuse;
	if (refuse_launch[index])
		return err_set(err, refuse_launch[index], "the device refuses");
	plan->target = *target;
	atomic_store(target->progress, 0);
	atomic_store(target->done, 0);
	last_plan[index] = plan;
	launches[index]++;
	return 0;
}

static int dev_fence(struct plan *plan, uint32_t group, void *stream, uint64_t deadline, uint64_t *bad_leaf,
		     struct err *err)
{
	(void)stream, (void)deadline;
	fenced_group[plan->refuse] = group;
	int rc = fence_answer[plan->refuse];
	*bad_leaf = plan->spans[0].first_leaf;
	return rc ? err_set(err, rc, "as the test wants") : 0;
}

static void dev_cancel(struct plan *plan)
{
	(void)plan; /* as on a GPU */
}

static int dev_idle(struct device *dev, uint64_t deadline, struct err *err)
{
	(void)deadline;
	int rc = idle_answer[dev->index];
	return rc ? err_set(err, rc, "the device copies") : 0;
}

static const struct device_ops driven = {
	.name = "driven",
	.open = dev_open,
	.close = dev_close,
	.digests = dev_digests,
	.arena_attach = dev_attach,
	.arena_detach = dev_detach,
	.plan_new = dev_plan_new,
	.plan_free = dev_plan_free,
	.plan_rebind = dev_plan_rebind,
	.plan_launch = dev_launch,
	.plan_fence = dev_fence,
	.plan_cancel = dev_cancel,
	.idle = dev_idle,
};

static uint64_t plan_bytes(const struct plan *plan)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < plan->n; i++)
		sum += span_bytes(&plan->spans[i]);
	return sum;
}

static void finish_plan(struct plan *plan, uint32_t done)
{
	atomic_store(plan->target.progress, plan_bytes(plan));
	atomic_store(plan->target.done, done);
}

static char on_host[3][64], on_gpu[2][128];

/* a, c on the host; b, d on device 0: interleaved in the layout. */
static void two_devices_up(struct ranks *c)
{
	ranks_open(c, 1, NULL);
	c->s[0]->layers = (struct device_layers){.host = &driven, .cuda = &driven};
	static const char *const names[] = {"a", "b", "c", "d"};
	for (int i = 0; i < 4; i++) {
		uint64_t shape = i % 2 ? sizeof(on_gpu[0]) : sizeof(on_host[0]);
		ckpt_tensor t = {.size = sizeof(t),
				 .name = names[i],
				 .dtype = CKPT_U8,
				 .ndim = 1,
				 .shape = &shape,
				 .group = in_group[i],
				 .npieces = 1,
				 .pieces = &(ckpt_piece){.data = i % 2 ? on_gpu[i / 2] : on_host[i / 2]},
				 .device = i % 2 ? 0 : CKPT_HOST};
		cr_assert_eq(ckpt_register_tensor(c->s[0], &t), 0, "%s", ckpt_error(c->s[0]));
	}
	ranks_join(c);
	ranks_await_slots(c, 0); /* of several saves in a row none is to be left out */
}

static void await_value(const _Atomic uint32_t *value, uint32_t want)
{
	/* The service thread sums counters every millisecond; nothing announces it. */
	for (int i = 0; i < 5000 && atomic_load(value) != want; i++)
		poll(NULL, 0, 1);
	cr_assert_eq(atomic_load(value), want);
}

Test(capture, two_devices_are_one_capture)
{
	struct ranks c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0, "%s", ckpt_error(c.s[0]));
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 4)];
	cr_assert_eq(launches[0], 1);
	cr_assert_eq(launches[1], 1);
	/* All of the host's bytes: only piece a is a prefix, since b is not there. */
	finish_plan(last_plan[0], 1);
	for (int i = 0; i < 5000 && atomic_load(&slot->progress) != 64; i++)
		poll(NULL, 0, 1);
	cr_assert_eq(atomic_load(&slot->progress), 64);
	cr_assert_eq(atomic_load(&slot->done), 0);
	finish_plan(last_plan[1], 1);
	await_value(&slot->done, 1);
	cr_assert_eq(atomic_load(&slot->progress), 2 * 64 + 2 * 128);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(capture, a_failure_of_one_device_waits_for_the_other)
{
	struct ranks c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0);
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 4)];
	finish_plan(last_plan[0], (uint32_t)-EIO);
	finish_plan(last_plan[1], 1);
	await_value(&slot->done, (uint32_t)-EIO);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(capture, a_launch_that_is_refused_frees_nothing_before_the_other_device_ends)
{
	struct ranks c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	refuse_launch[1] = -EIO;
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), -EIO);
	cr_assert(strstr(ckpt_error(c.s[0]), "refuses"), "%s", ckpt_error(c.s[0]));
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 4)];
	cr_assert_eq(atomic_load(&slot->done), 0);
	finish_plan(last_plan[0], 1);
	await_value(&slot->done, (uint32_t)-EIO);
	ranks_down(&c);
}

/* Its copy is ended early, as the save becomes nothing: that is no reason. */
Test(capture, a_launch_that_is_refused_is_told_by_its_own_code)
{
	struct ranks c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	refuse_launch[1] = -EIO;
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), -EIO);
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 4)];
	finish_plan(last_plan[0], (uint32_t)-ECANCELED);
	await_value(&slot->done, (uint32_t)-EIO);
	ranks_down(&c);
}

Test(capture, a_plan_that_cannot_follow_a_move_fails_its_save_and_is_tried_again)
{
	struct ranks c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	uint8_t elsewhere[4096];
	refuse_rebind = -ENOMEM;
	cr_assert_eq(ckpt_rebind(c.s[0], "a", 0, elsewhere), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), -ENOMEM);
	cr_assert(strstr(ckpt_error(c.s[0]), "step 4: capture plan: as the test wants"), "%s", ckpt_error(c.s[0]));
	uint32_t at = ranks_slot(&c, 0, 4);
	cr_assert_eq(atomic_load(&fake_head(c.f, 0)->slots[at].done), (uint32_t)-ENOMEM, "the daemon frees the slot");
	fake_free(c.f, 0, at);
	refuse_rebind = 0;
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, NULL, &snap), 0, "%s", ckpt_error(c.s[0]));
	finish_plan(last_plan[0], 1);
	finish_plan(last_plan[1], 1);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

/* By two complete captures a device sees what does not change; one that goes on says nothing. */
Test(capture, each_device_learns_what_the_slot_holds_and_what_was_captured_last)
{
	struct ranks c;
	ckpt_snapshot *snaps[3];
	uint32_t slots[3];
	two_devices_up(&c);
	for (uint32_t i = 0; i < 3; i++) {
		if (i == 2) {
			atomic_store(&fake_head(c.f, 0)->slots[slots[0]].intact, 1);
			fake_free(c.f, 0, slots[0]);
		}
		cr_assert_eq(ckpt_begin(c.s[0], 4 + i, CKPT_MEMORY, NULL, &snaps[i]), 0, "%s", ckpt_error(c.s[0]));
		slots[i] = ranks_slot(&c, 0, 4 + i);
		for (int d = 0; d < 2; d++) {
			const struct capture_target *target = &last_plan[d]->target;
			cr_assert_eq(target->held, i == 2);
			cr_assert_eq(target->leaves, last_plan[0]->target.leaves);
			if (i)
				cr_assert_eq(memcmp(target->newest, fake_leaves(c.f, 0, slots[i - 1]), 8), 0);
			else
				cr_assert_null(target->newest);
		}
		cr_assert_eq(ckpt_fence(snaps[i], NULL), 0);
		finish_plan(last_plan[0], 1);
		finish_plan(last_plan[1], 1);
		await_value(&fake_head(c.f, 0)->slots[slots[i]].done, 1);
		fake_leaves(c.f, 0, slots[i])[0] = i + 1; /* as a device would */
	}
	cr_assert_eq(slots[2], slots[0]);
	for (int i = 0; i < 3; i++)
		ckpt_snapshot_free(snaps[i]);
	ranks_down(&c);
}

Test(capture, a_mutation_is_told_although_the_daemon_gave_the_snapshot_up_first)
{
	struct ranks c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0);
	fence_answer[0] = -EBADMSG;
	uint32_t at = ranks_slot(&c, 0, 4);
	fake_head(c.f, 0)->slots[at].epoch = 0;
	fake_free(c.f, 0, at);
	cr_assert_eq(ckpt_fence(snap, NULL), -EBADMSG);
	cr_assert(strstr(ckpt_error(c.s[0]), "tensor a"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 0), -EBADMSG);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(capture, a_mutation_names_the_tensor)
{
	struct ranks c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0);
	fence_answer[0] = -EBADMSG;
	cr_assert_eq(ckpt_fence(snap, NULL), -EBADMSG);
	cr_assert(strstr(ckpt_error(c.s[0]), "tensor a"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_wait(snap, CKPT_CAPTURED, 0), -EBADMSG, "the failure stays");
	cr_assert(strstr(ckpt_error(c.s[0]), "tensor a"), "%s", ckpt_error(c.s[0]));
	fence_answer[0] = -ETIMEDOUT;
	ckpt_snapshot_free(snap);
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, NULL, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), -ETIMEDOUT);
	cr_assert(strstr(ckpt_error(c.s[0]), "step 5: not captured after 5000 ms"), "%s", ckpt_error(c.s[0]));
	fence_answer[0] = 0;
	cr_assert_eq(ckpt_fence(snap, NULL), 0, "called again: %s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(capture, a_group_is_fenced_by_itself_and_the_rest_by_the_last_fence)
{
	struct ranks c;
	ckpt_snapshot *snap;
	for (int i = 0; i < 4; i++)
		in_group[i] = i < 2 ? "optimizer" : "params";
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0);
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[ranks_slot(&c, 0, 4)];
	/* The spans of each device tell them apart by the same numbers. */
	for (int d = 0; d < 2; d++)
		for (size_t i = 0; i < 2; i++)
			cr_assert_eq(last_plan[d]->spans[i].group, i);
	cr_assert_eq(ckpt_fence_group(snap, "params", NULL), 0, "%s", ckpt_error(c.s[0]));
	cr_assert(fenced_group[0] == 1 && fenced_group[1] == 1);
	cr_assert_eq(ckpt_fence_group(snap, "optimizer", NULL), 0);
	cr_assert(fenced_group[0] == 0 && fenced_group[1] == 0);
	cr_assert_eq(atomic_load(&slot->fenced), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	cr_assert(fenced_group[0] == FENCE_ALL && fenced_group[1] == FENCE_ALL);
	cr_assert_eq(atomic_load(&slot->fenced), 1);
	cr_assert_eq(ckpt_fence_group(snap, "frozen", NULL), -EINVAL);
	cr_assert(strstr(ckpt_error(c.s[0]), "\"frozen\""), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence_group(NULL, "params", NULL), -EINVAL);
	finish_plan(last_plan[0], 1);
	finish_plan(last_plan[1], 1);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(capture, a_fence_that_fails_on_one_device_holds_on_the_other)
{
	struct ranks c;
	ckpt_snapshot *snap;
	two_devices_up(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0);
	fence_answer[0] = -EIO;
	fence_answer[1] = -ENODEV;
	fenced_group[1] = 7;
	cr_assert_eq(ckpt_fence(snap, NULL), -EIO, "the first failure");
	cr_assert_eq(fenced_group[1], FENCE_ALL);
	ckpt_snapshot_free(snap);
	ranks_down(&c);
}

Test(capture, closing_waits_for_devices_that_read_and_not_for_dead_ones)
{
	struct ranks c;
	two_devices_up(&c);
	idle_answer[0] = -EIO;
	idle_answer[1] = -ETIMEDOUT;
	cr_assert_eq(ckpt_close(c.s[0]), -ETIMEDOUT);
	c.s[0] = NULL;
	idle_answer[0] = idle_answer[1] = 0;
	ranks_down(&c);
}

Test(capture, staging_is_for_gpus_and_given_up_where_there_is_no_memory)
{
	struct ranks c;
	setenv("CKPT_STAGING", "1", 1);
	two_devices_up(&c);
	cr_assert_eq(plan_flags[0], 0u);
	cr_assert_eq(plan_flags[1], (unsigned)PLAN_STAGED);
	ranks_down(&c);
	no_spare = true;
	two_devices_up(&c);
	cr_assert_eq(plan_flags[1], 0u);
	ranks_down(&c);
}

Test(capture, a_large_state_on_a_gpu_has_no_more_than_eight_steps_of_the_counter)
{
	const uint64_t mib = 1 << 20;
	cr_assert_eq(capture_granule(0, 0), 64 * mib);
	cr_assert_eq(capture_granule(0, 512 * mib), 64 * mib);
	cr_assert_eq(capture_granule(0, 512 * mib + 1), 64 * mib + 1);
	cr_assert_eq(capture_granule(3, 20480 * mib), 2560 * mib);
	cr_assert_eq(capture_granule(CKPT_HOST, 20480 * mib), 64 * mib);
}
