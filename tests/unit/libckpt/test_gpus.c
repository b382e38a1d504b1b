/* A rank with state on two GPUs, played by the fake of the CUDA runtime, and on the host. */
#include "ranks.h"

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

/* The last rank has the state on GPUs; the others nothing. */
static void up(struct ranks *c, uint32_t world, const char *staging)
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
	ranks_join(c);
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
