/* Many tensors of one buffer: what adjoins is one copy, what stands in two allocations never is. */
#include "cuda/device_cuda.h"
#include "cuda_log.h"

#include "../../../fake/cuda_fake.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

enum { TENSORS = 5000, EACH = 2 << 10, STATE = TENSORS * EACH, GRANULE = 512 << 10, HEAD = 4096, PLANS = 3 };

static const struct device_ops *const ops = &device_cuda_ops;

/* `apart` bytes between two tensors in memory; in the arena none. */
struct flat {
	struct cuda_fake *fake;
	struct device *dev;
	struct plan *plans[PLANS];
	char *state, *arena;
	size_t each, apart, arena_bytes;
	struct span *spans;
	struct capture_target target;
	struct err err;
};

static void place_spans(struct flat *f)
{
	for (size_t i = 0; i < TENSORS; i++)
		f->spans[i] = (struct span){.memory = f->state + i * (f->each + f->apart),
					    .row_bytes = f->each,
					    .arena_at = i * f->each,
					    .first_leaf = i};
}

static struct flat *flat_make(size_t apart)
{
	struct flat *f = calloc(1, sizeof(*f));
	f->fake = cuda_fake_new(1);
	f->each = EACH;
	f->apart = apart;
	f->state = aligned_alloc(4096, align_up(TENSORS * (EACH + apart), 4096));
	f->arena_bytes = HEAD + align_up(TENSORS * 8, HEAD) + STATE;
	f->arena = aligned_alloc(4096, align_up(f->arena_bytes, 4096));
	memset(f->arena, 0, f->arena_bytes);
	f->spans = calloc(TENSORS, sizeof(*f->spans));
	f->target = (struct capture_target){
		.progress = (void *)f->arena, .done = (void *)(f->arena + 64), .leaves = (void *)(f->arena + HEAD)};
	for (size_t i = 0; i < TENSORS * (EACH + apart); i++)
		f->state[i] = (char)(i * 2654435761u >> 13);
	place_spans(f);
	cr_assert_eq(device_cuda_open(cuda_fake_rt(f->fake), 0, &f->dev, &f->err), 0, "%s", f->err.text);
	cr_assert_eq(ops->arena_attach(f->dev, f->arena, f->arena_bytes, &f->err), 0, "%s", f->err.text);
	return f;
}

static char *data(const struct flat *f)
{
	return f->arena + HEAD + align_up(TENSORS * 8, HEAD);
}

static void flat_plan(struct flat *f, int i, unsigned flags)
{
	cr_assert_eq(ops->plan_new(f->dev, data(f), f->spans, TENSORS, GRANULE, flags, &f->plans[i], &f->err), 0, "%s",
		     f->err.text);
	ops->plan_prepare(f->plans[i], f->target.progress);
}

static void flat_free(struct flat *f)
{
	for (int i = 0; i < PLANS; i++)
		ops->plan_free(f->plans[i]);
	ops->arena_detach(f->dev, f->arena);
	ops->close(f->dev);
	cuda_fake_settle(f->fake);
	cr_assert_eq(cuda_fake_live(f->fake), 0u);
	cuda_fake_free(f->fake);
	free(f->state);
	free(f->arena);
	free(f->spans);
	free(f);
}

static void expect_captured(struct flat *f)
{
	memset(data(f), 0, STATE);
	cr_assert_eq(ops->plan_launch(f->plans[0], NULL, &f->target, 0, &f->err), 0, "%s", f->err.text);
	cuda_fake_settle(f->fake);
	cr_assert_eq(atomic_load(f->target.done), 1u);
	cr_assert_eq(atomic_load(f->target.progress), (uint64_t)STATE);
	for (size_t i = 0; i < TENSORS; i++) {
		cr_assert(!memcmp(data(f) + i * EACH, f->spans[i].memory, EACH), "tensor %zu", i);
		cr_assert_eq(f->target.leaves[i], digest_leaf(f->spans[i].memory, EACH));
	}
}

/* A copy and a step of the counter for each granule. */
enum { FEW = 2 * (STATE / GRANULE + 1) };

Test(cuda_merge, tensors_of_one_buffer_are_a_copy_for_each_step_of_the_counter)
{
	for (unsigned flags = 0; flags <= PLAN_STAGED; flags++) {
		struct flat *f = flat_make(0);
		cuda_fake_allocated(f->fake, f->state, STATE);
		flat_plan(f, 0, flags);
		cr_assert_leq(cuda_fake_nodes(f->fake), (uint64_t)FEW << flags, "%lu nodes", cuda_fake_nodes(f->fake));
		expect_captured(f);
		flat_free(f);
	}
}

/* Their buffer ends with tensor 1700, and with 3000, where another one begins: the fake refuses a copy across. */
Test(cuda_merge, no_copy_crosses_two_allocations)
{
	for (int batched = 0; batched < 2; batched++) {
		struct flat *f = flat_make(0);
		cuda_fake_allocated(f->fake, f->state, (size_t)1700 * EACH);
		cuda_fake_allocated(f->fake, f->state + (size_t)1700 * EACH, (size_t)1300 * EACH);
		cuda_fake_allocated(f->fake, f->state + (size_t)3000 * EACH, (size_t)2000 * EACH);
		cuda_fake_rt(f->fake)->batched = batched;
		flat_plan(f, 0, 0);
		cr_assert_leq(cuda_fake_nodes(f->fake), FEW + 4u);
		expect_captured(f);
		flat_free(f);
	}
}

/* Each for itself they are small: they are gathered, and adjoin there; all but what there is no room for. */
Test(cuda_merge, what_stands_alone_or_in_unknown_memory_is_gathered)
{
	static const size_t apart[] = {512, 0};
	for (int i = 0; i < 2; i++) {
		struct flat *f = flat_make(apart[i]);
		cuda_fake_rt(f->fake)->gather_most = STATE;
		flat_plan(f, 0, 0);
		cr_assert_leq(cuda_fake_nodes(f->fake), (uint64_t)FEW, "%lu nodes", cuda_fake_nodes(f->fake));
		expect_captured(f);
		flat_free(f);
	}
}

Test(cuda_merge, a_plan_that_is_bound_anew_merges_what_adjoins_there)
{
	struct flat *f = flat_make(512);
	cuda_fake_allocated(f->fake, f->state, TENSORS * (EACH + 512));
	flat_plan(f, 0, 0);
	expect_captured(f);
	f->apart = 0;
	place_spans(f);
	cr_assert_eq(ops->plan_rebind(f->plans[0], f->spans, TENSORS, &f->err), 0, "%s", f->err.text);
	cr_assert_null(f->dev->room, "nothing of it is gathered now");
	ops->plan_prepare(f->plans[0], f->target.progress);
	cr_assert_leq(cuda_fake_nodes(f->fake), (uint64_t)FEW);
	expect_captured(f);
	flat_free(f);
}

static int refuse_recording(struct cuda_rt *rt, struct rt_stream *stream)
{
	(void)rt;
	(void)stream;
	return 801;
}

Test(cuda_merge, plans_that_cannot_be_recorded_fall_back_to_batches_with_one_line)
{
	struct flat *f = flat_make(0);
	int heard = cuda_log_listen();
	cuda_fake_allocated(f->fake, f->state, STATE);
	cuda_fake_rt(f->fake)->capture_begin = refuse_recording;
	for (int i = 0; i < PLANS; i++)
		flat_plan(f, i, 0);
	expect_captured(f);
	cr_assert_eq(cuda_log_count(heard, "captures are not recorded as graphs"), 1);
	cr_assert_eq(cuda_fake_nodes(f->fake), 0u);
	flat_free(f);
}
