/* A rank with state on two GPUs, played by the fake of the CUDA runtime, and on the host. */
#include "ranks.h"

#include "base/clock.h"
#include "client/session/session.h"
#include "cuda/device_cuda.h"

#include "../../fake/cuda_fake.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 300000, PARTS = 3 };

static struct cuda_fake *fake;
static struct device_ops ops;
static struct rt_stream *stream; /* of GPU 0 */
static char *state[PARTS];       /* of GPU 0, GPU 1, the host */

static int open_fake(int ordinal, struct device **out, struct err *err)
{
	return device_cuda_open(cuda_fake_rt(fake), ordinal, out, err);
}

static void fill(int with)
{
	for (int i = 0; i < PARTS; i++)
		memset(state[i], with + i, BYTES);
}

static bool is(int with)
{
	bool good = true;
	for (int i = 0; i < PARTS; i++)
		for (size_t k = 0; k < BYTES; k++)
			good = good && state[i][k] == with + i;
	return good;
}

static void register_parts(struct ranks *c, uint32_t rank)
{
	static const char *const groups[] = {"optimizer", "params", "params"};
	uint64_t shape = BYTES;
	for (int i = 0; i < PARTS; i++) {
		char name[16] = {(char)('a' + i), (char)('0' + rank), 0};
		ckpt_tensor t = {.size = sizeof(t),
				 .name = name,
				 .dtype = CKPT_U8,
				 .ndim = 1,
				 .shape = &shape,
				 .npieces = 1,
				 .group = groups[i],
				 .pieces = &(ckpt_piece){.data = state[i]},
				 .device = i < 2 ? i : CKPT_HOST};
		cr_assert_eq(ckpt_register_tensor(c->s[rank], &t), 0, "%s", ckpt_error(c->s[rank]));
	}
}

static bool ready(const ckpt *s, uint32_t slot)
{
	return capture_slot_ready(&s->stage->capture, slot);
}

static void await_slots(struct ranks *c)
{
	ranks_await_slots(c, c->world - 1);
}

/* The last rank has the state on GPUs; the others nothing. */
static void open_all(struct ranks *c, uint32_t world, const char *staging)
{
	setenv("CKPT_STAGING", staging, 1);
	fake = cuda_fake_new(6);
	stream = cuda_fake_stream(fake);
	for (int i = 0; i < PARTS; i++)
		state[i] = malloc(BYTES);
	ops = device_cuda_ops;
	ops.open = open_fake;
	ranks_open(c, world, NULL);
	c->s[world - 1]->layers.cuda = &ops;
	register_parts(c, world - 1);
}

static void up(struct ranks *c, uint32_t world, const char *staging)
{
	open_all(c, world, staging);
	ranks_join(c);
	await_slots(c);
}

static void down(struct ranks *c)
{
	ranks_down(c);
	cuda_fake_rt(fake)->stream_destroy(cuda_fake_rt(fake), stream);
	cuda_fake_settle(fake);
	cr_assert_eq(cuda_fake_live(fake), 0u);
	cuda_fake_free(fake);
	for (int i = 0; i < PARTS; i++)
		free(state[i]);
}

/* The GPUs are the first two devices; each writes this last. */
static bool all_read(const struct arena_part *parts)
{
	return atomic_load(&parts[0].done) == 1 && atomic_load(&parts[1].done) == 1;
}

static void save_and_restore(const char *staging)
{
	struct ranks c;
	ckpt_snapshot *snap;
	int rc;
	up(&c, 1, staging);
	fill(1);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, stream, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence_group(snap, "params", stream), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(snap, stream), 0, "%s", ckpt_error(c.s[0]));
	cuda_fake_settle(fake);
	uint32_t at = ranks_slot(&c, 0, 4);
	struct arena_slot *slot = &fake_head(c.f, 0)->slots[at];
	/* The service thread sums the counters every millisecond; nothing announces it. */
	for (int i = 0; i < 5000 && !atomic_load(&slot->done); i++)
		poll(NULL, 0, 1);
	cr_assert_eq(atomic_load(&slot->done), 1u);
	cr_assert_eq(atomic_load(&slot->progress), (uint64_t)PARTS * BYTES);
	ckpt_snapshot_free(snap);
	fill(60);
	fake_manners(c.f, &(struct fake_manners){
				  .restored = {.step = 4, .epoch = 1, .source = WIRE_FROM_MEMORY, .slots = {at}}});
	ranks_restore(&c, CKPT_LATEST, &rc, NULL);
	cr_assert_eq(rc, 0);
	cr_assert(is(1));
	down(&c);
}

Test(gpus, state_on_two_and_on_the_host_is_saved_and_restored)
{
	save_and_restore("0");
	save_and_restore("1");
}

/* Rank 0 is lost for good while the GPUs of rank 1 have not read its state yet, and its fence was called. */
Test(gpus, who_moves_is_told_when_no_gpu_reads_the_state_any_more)
{
	struct ranks c;
	ckpt_snapshot *snap;
	up(&c, 2, "0");
	fill(1);
	cuda_fake_hold(fake, true);
	cr_assert_eq(ckpt_begin(c.s[1], 4, CKPT_MEMORY, stream, &snap), 0, "%s", ckpt_error(c.s[1]));
	cr_assert_eq(ckpt_fence(snap, stream), 0);
	const struct arena_part *part = stage_head(snap->stage)->parts[snap->slot];
	cr_assert_eq(ckpt_close(c.s[0]), 0);
	fake_epoch(c.f, 2, "rank 0 is lost for good");
	fake_shrink(c.f, 1);
	cr_assert_eq(ckpt_join(c.s[1], NULL, 0, NULL, 20), -ETIMEDOUT);
	cr_assert(strstr(ckpt_error(c.s[1]), "still read"), "%s", ckpt_error(c.s[1]));
	cr_assert(strstr(ckpt_error(c.s[1]), "GPU 0"), "%s", ckpt_error(c.s[1]));
	cr_assert_eq(ckpt_rank(c.s[1]), 1);
	cr_assert(!all_read(part));
	cuda_fake_hold(fake, false);
	cr_assert_eq(ckpt_join(c.s[1], NULL, 0, NULL, -1), -EREMCHG);
	cr_assert(strstr(ckpt_error(c.s[1]), "world size 1, this process is rank 0"), "%s", ckpt_error(c.s[1]));
	cr_assert_eq(ckpt_rank(c.s[1]), 0);
	cr_assert(all_read(part)); /* although the handle keeps the stage */
	ckpt_snapshot *old = snap;
	c.s[0] = c.s[1];
	c.world = 1;
	register_parts(&c, 0);
	ranks_join(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, stream, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(snap, stream), 0);
	ckpt_snapshot_free(snap);
	ckpt_snapshot_free(old);
	down(&c);
}

/* A handle that the caller keeps beyond the session. */
Test(gpus, closing_waits_until_no_gpu_reads_the_state_any_more)
{
	struct ranks c;
	ckpt_snapshot *snap;
	up(&c, 1, "0");
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, stream, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, stream), 0);
	const struct arena_part *part = stage_head(snap->stage)->parts[snap->slot];
	cr_assert_eq(ckpt_close(c.s[0]), 0);
	cr_assert(all_read(part));
	c.s[0] = NULL;
	ckpt_snapshot_free(snap);
	down(&c);
}

/* ---- slot by slot -------------------------------------------------------------------------------------------------- */

enum { ATTACHED_MAX = 64 };
static struct {
	int ordinal;
	const uint8_t *base;
	size_t size;
} attached[ATTACHED_MAX];
static _Atomic unsigned nattached;

static int note_attach(struct device *dev, void *base, size_t size, struct err *err)
{
	unsigned i = nattached;
	cr_assert_lt(i, ATTACHED_MAX);
	attached[i].ordinal = dev->ordinal;
	attached[i].base = base;
	attached[i].size = size;
	nattached = i + 1;
	return device_cuda_ops.arena_attach(dev, base, size, err);
}

Test(gpus, the_first_slot_is_pinned_at_the_join_and_each_other_when_its_pages_are_settled)
{
	struct ranks c;
	ckpt_snapshot *snap;
	nattached = 0;
	open_all(&c, 1, "0");
	ops.arena_attach = note_attach;
	fake_manners(c.f, &(struct fake_manners){.settles_first = true});
	ranks_join(&c);
	const struct arena *own = c.s[0]->stage->arenas.own;
	cr_assert_eq(nattached, 4, "the head and a slot, for both GPUs");
	for (unsigned i = 0; i < 4; i++) {
		cr_assert_eq(attached[i].ordinal, (int)(i % 2));
		cr_assert_eq(attached[i].base, i < 2 ? own->base : arena_slot_data(own, 0));
		cr_assert_eq(attached[i].size, i < 2 ? own->slots_at : own->slot_size);
	}
	cr_assert(ready(c.s[0], 0) && !ready(c.s[0], 1));
	cr_assert_eq(atomic_load(&fake_head(c.f, 0)->pinning), 1u, "the daemon is asked not to put it off");
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, stream, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(snap, stream), 0);
	ckpt_snapshot_free(snap);
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, stream, &snap), -EBUSY, "no other slot can be written to");
	cr_assert(strstr(ckpt_error(c.s[0]), "not pinned yet"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_wait_slot(c.s[0], 1), -ETIMEDOUT);
	atomic_store(&fake_head(c.f, 0)->settled, own->slots_at + 2 * own->slot_size);
	fake_wake(c.f);
	cr_assert_eq(ckpt_wait_slot(c.s[0], -1), 0, "%s", ckpt_error(c.s[0]));
	cr_assert(ready(c.s[0], 1) && !ready(c.s[0], 2));
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, stream, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(snap, stream), 0);
	cr_assert_eq(ranks_slot(&c, 0, 5), 1u);
	ckpt_snapshot_free(snap);
	atomic_store(&fake_head(c.f, 0)->settled, own->size);
	fake_wake(c.f);
	await_slots(&c);
	for (int i = 0; i < 5000 && atomic_load(&fake_head(c.f, 0)->pinning); i++)
		poll(NULL, 0, 1);
	cr_assert_eq(atomic_load(&fake_head(c.f, 0)->pinning), 0u);
	down(&c);
}

/* What a rank that comes back has saved stands in the first. */
Test(gpus, the_slot_that_is_pinned_first_is_one_that_is_free)
{
	struct ranks c;
	ckpt_snapshot *snap;
	up(&c, 1, "0");
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, stream, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(snap, stream), 0);
	cr_assert_eq(ranks_slot(&c, 0, 4), 0u);
	ckpt_snapshot_free(snap);
	cuda_fake_settle(fake);
	nattached = 0;
	ops.arena_attach = note_attach;
	struct capture again;
	struct err err = {0};
	cr_assert_eq(capture_init(&again, c.s[0]->stage->arenas.own, &c.s[0]->table, &c.s[0]->layers, &c.s[0]->settings,
				  &err),
		     0, "%s", err.text);
	cr_assert_eq(attached[2].base, arena_slot_data(c.s[0]->stage->arenas.own, 1));
	capture_free(&again);
	down(&c);
}

/* Also with pages that never settle, where nothing more is waited for than the page that it is at. */
Test(gpus, closing_waits_for_no_slot_that_is_not_pinned_yet)
{
	struct ranks c;
	open_all(&c, 1, "0");
	fake_manners(c.f, &(struct fake_manners){.settles_first = true});
	ranks_join(&c);
	uint64_t before = clock_now();
	cr_assert_eq(ckpt_close(c.s[0]), 0);
	cr_assert_lt(clock_now() - before, 5 * CLOCK_NS_PER_S);
	c.s[0] = NULL;
	down(&c);
}

/* ---- fences that fail ---------------------------------------------------------------------------------------------- */

/* What the caller is told to call again must not have ended the snapshot. */
Test(gpus, a_fence_that_was_refused_for_a_recording_and_called_again_leaves_the_save_good)
{
	struct ranks c;
	ckpt_snapshot *snap;
	up(&c, 1, "0");
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_STORAGE, stream, &snap), 0, "%s", ckpt_error(c.s[0]));
	cuda_fake_record(fake, stream, false);
	cr_assert_eq(ckpt_fence(snap, stream), -EINVAL);
	cr_assert(strstr(ckpt_error(c.s[0]), "recording"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(cuda_fake_recorded(fake, stream), 0);
	cr_assert_eq(ckpt_fence(snap, stream), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_wait(snap, CKPT_DURABLE, 0), -ETIMEDOUT, "%s", ckpt_error(c.s[0]));
	fake_publish(c.f, &(struct fake_level){.id = {4, 1}, .level = LEVEL_CAPTURED});
	cr_assert_eq(ckpt_poll(snap), CKPT_CAPTURED, "%s", ckpt_error(c.s[0]));
	fake_publish(c.f, &(struct fake_level){.id = {4, 1}, .level = LEVEL_DURABLE});
	cr_assert_eq(ckpt_poll(snap), CKPT_DURABLE, "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	down(&c);
}

/* Behind -ESTALE nothing reads the state any more. */
Test(gpus, a_fence_in_a_later_epoch_is_refused_for_a_recording_all_the_same)
{
	struct ranks c;
	ckpt_snapshot *snap;
	up(&c, 1, "0");
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, stream, &snap), 0, "%s", ckpt_error(c.s[0]));
	fake_epoch(c.f, 2, "a rank was lost");
	cuda_fake_record(fake, stream, false);
	cr_assert_eq(ckpt_fence(snap, stream), -EINVAL, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(cuda_fake_recorded(fake, stream), 0);
	cr_assert_eq(ckpt_fence(snap, stream), -ESTALE, "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	down(&c);
}

static _Atomic bool host_reads;

static int slow_fence(struct plan *plan, uint32_t group, void *on, uint64_t deadline, uint64_t *bad_leaf,
		      struct err *err)
{
	if (atomic_load(&host_reads))
		return err_set(err, -ETIMEDOUT, "the host is still being read");
	return device_host.plan_fence(plan, group, on, deadline, bad_leaf, err);
}

Test(gpus, a_fence_says_that_the_state_is_still_read_although_a_gpu_has_failed)
{
	struct ranks c;
	ckpt_snapshot *snap;
	struct device_ops host = device_host;
	host.plan_fence = slow_fence;
	open_all(&c, 1, "0");
	c.s[0]->layers.host = &host;
	ranks_join(&c);
	await_slots(&c);
	cuda_fake_hold(fake, true);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, NULL, &snap), 0, "%s", ckpt_error(c.s[0]));
	cuda_fake_fail_op(fake, 1);
	cuda_fake_hold(fake, false);
	cuda_fake_settle(fake);
	atomic_store(&host_reads, true);
	cr_assert_eq(ckpt_fence(snap, NULL), -ETIMEDOUT, "%s", ckpt_error(c.s[0]));
	atomic_store(&host_reads, false);
	cr_assert_eq(ckpt_fence(snap, NULL), -EIO, "%s", ckpt_error(c.s[0]));
	ckpt_snapshot_free(snap);
	down(&c);
}

static _Atomic bool launch_fails;

static int failing_launch(struct plan *plan, void *on, const struct capture_target *target, unsigned flags,
			  struct err *err)
{
	if (atomic_load(&launch_fails))
		return err_set(err, -EIO, "it cannot");
	return device_cuda_ops.plan_launch(plan, on, target, flags, err);
}

/* It is not to be told to call again for ever. */
Test(gpus, the_fence_of_a_save_whose_slot_another_one_has_is_cancelled)
{
	struct ranks c;
	ckpt_snapshot *snap, *none;
	open_all(&c, 1, "0");
	ops.plan_launch = failing_launch;
	ranks_join(&c);
	await_slots(&c);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, stream, &snap), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_fence(snap, stream), 0, "%s", ckpt_error(c.s[0]));
	cuda_fake_settle(fake);
	fake_free(c.f, 0, 0);
	atomic_store(&launch_fails, true);
	cr_assert_eq(ckpt_begin(c.s[0], 5, CKPT_MEMORY, stream, &none), -EIO);
	atomic_store(&launch_fails, false);
	cuda_fake_record(fake, stream, false);
	cr_assert_eq(ckpt_fence(snap, stream), -ECANCELED, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(cuda_fake_recorded(fake, stream), 0);
	ckpt_snapshot_free(snap);
	down(&c);
}

/* ---- half a begin -------------------------------------------------------------------------------------------------- */

static int launch_on_first(struct plan *plan, void *on, const struct capture_target *target, unsigned flags,
			   struct err *err)
{
	static _Atomic unsigned launches;
	if (launches++)
		return err_set(err, -EIO, "GPU 1 cannot");
	return device_cuda_ops.plan_launch(plan, on, target, flags, err);
}

static void overwrite(void *arg)
{
	memset(arg, 99, BYTES);
}

/* The state of GPU 0, filled with 1, was copied to slot 0 before it was overwritten. */
static void expect_unchanged(struct ranks *c)
{
	const struct layout_piece *first = &fake_layout(c->f, 0)->pieces[0];
	cr_assert_eq(first->bytes, BYTES);
	const uint8_t *copy = fake_slot(c->f, 0, 0) + first->slot_at;
	for (size_t i = 0; i < BYTES; i++)
		cr_assert_eq(copy[i], 1, "byte %zu was copied when it had been changed", i);
}

/* Who goes on without this save may change and free the state in the order of its stream. */
Test(gpus, behind_a_begin_that_failed_on_one_gpu_the_others_do_not_read_the_state)
{
	struct ranks c;
	ckpt_snapshot *snap;
	open_all(&c, 1, "0");
	ops.plan_launch = launch_on_first;
	ranks_join(&c);
	await_slots(&c);
	fill(1);
	cuda_fake_hold(fake, true);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, stream, &snap), -EIO);
	cuda_fake_call(fake, stream, overwrite, state[0]);
	cuda_fake_hold(fake, false);
	cuda_fake_settle(fake);
	expect_unchanged(&c);
	down(&c);
}

/* The thread does not: work that never ends may be in front of the copy, until a communicator is aborted. */
Test(gpus, behind_a_join_the_default_stream_waits_for_a_save_that_had_no_fence)
{
	struct ranks c;
	ckpt_snapshot *snap;
	up(&c, 1, "0");
	fill(1);
	cuda_fake_hold(fake, true);
	cr_assert_eq(ckpt_begin(c.s[0], 4, CKPT_MEMORY, stream, &snap), 0, "%s", ckpt_error(c.s[0]));
	fake_epoch(c.f, 2, "a rank was lost");
	ranks_join(&c);
	cuda_fake_select(fake, 0);
	cuda_fake_call(fake, NULL, overwrite, state[0]);
	cuda_fake_hold(fake, false);
	cuda_fake_settle(fake);
	expect_unchanged(&c);
	ckpt_snapshot_free(snap);
	down(&c);
}
