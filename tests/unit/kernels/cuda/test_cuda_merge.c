/* Many tensors of one buffer: what adjoins is one copy, what stands in two allocations never is. */
#include "cuda/device_cuda.h"

#include "../../../fake/cuda_fake.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

enum { TENSORS = 5000, EACH = 2 << 10, STATE = TENSORS * EACH, GRANULE = 512 << 10, HEAD = 4096 };

static const struct device_ops *const ops = &device_cuda_ops;

/* `apart` bytes between two tensors in memory; in the arena none. */
struct flat {
	struct cuda_fake *fake;
	struct device *dev;
	struct plan *plan;
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

static void flat_plan(struct flat *f, unsigned flags)
{
	cr_assert_eq(ops->plan_new(f->dev, data(f), f->spans, TENSORS, GRANULE, flags, &f->plan, &f->err), 0, "%s",
		     f->err.text);
}

static void flat_free(struct flat *f)
{
	ops->plan_free(f->plan);
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

/* With at most so many operations. */
static void expect_captured(struct flat *f, uint64_t most)
{
	memset(data(f), 0, STATE);
	uint64_t before = cuda_fake_enqueued(f->fake);
	cr_assert_eq(ops->plan_launch(f->plan, NULL, &f->target, 0, &f->err), 0, "%s", f->err.text);
	uint64_t operations = cuda_fake_enqueued(f->fake) - before;
	cr_assert_leq(operations, most, "%lu operations", operations);
	cuda_fake_settle(f->fake);
	cr_assert_eq(atomic_load(f->target.done), 1u);
	cr_assert_eq(atomic_load(f->target.progress), (uint64_t)STATE);
	for (size_t i = 0; i < TENSORS; i++) {
		cr_assert(!memcmp(data(f) + i * EACH, f->spans[i].memory, EACH), "tensor %zu", i);
		cr_assert_eq(f->target.leaves[i], digest_leaf(f->spans[i].memory, EACH));
	}
}

/* A copy and a step of the counter for each granule, and what any launch has: gathering, digests, events, the end. */
enum { COPIES = 2 * (STATE / GRANULE + 1), FEW = COPIES + 14 };

Test(cuda_merge, tensors_of_one_buffer_are_a_copy_for_each_step_of_the_counter)
{
	for (unsigned flags = 0; flags <= PLAN_STAGED; flags++) {
		struct flat *f = flat_make(0);
		cuda_fake_allocated(f->fake, f->state, STATE);
		flat_plan(f, flags);
		expect_captured(f, flags ? FEW + COPIES : FEW);
		flat_free(f);
	}
}

/* Their buffer ends with tensor 1700, and with 3000, where another one begins: the fake refuses a copy across. */
Test(cuda_merge, no_copy_crosses_two_allocations)
{
	for (int batches = 0; batches < 2; batches++) {
		struct flat *f = flat_make(0);
		cuda_fake_allocated(f->fake, f->state, (size_t)1700 * EACH);
		cuda_fake_allocated(f->fake, f->state + (size_t)1700 * EACH, (size_t)1300 * EACH);
		cuda_fake_allocated(f->fake, f->state + (size_t)3000 * EACH, (size_t)2000 * EACH);
		if (!batches)
			cuda_fake_rt(f->fake)->copy_batch = NULL;
		flat_plan(f, 0);
		expect_captured(f, FEW + 4);
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
		flat_plan(f, 0);
		expect_captured(f, FEW);
		flat_free(f);
	}
}

Test(cuda_merge, a_plan_that_is_bound_anew_merges_what_adjoins_there)
{
	struct flat *f = flat_make(512);
	cuda_fake_allocated(f->fake, f->state, TENSORS * (EACH + 512));
	flat_plan(f, 0);
	expect_captured(f, UINT64_MAX);
	f->apart = 0;
	place_spans(f);
	cr_assert_eq(ops->plan_rebind(f->plan, f->spans, TENSORS, &f->err), 0, "%s", f->err.text);
	cr_assert_null(f->dev->room, "nothing of it is gathered now");
	expect_captured(f, FEW);
	flat_free(f);
}
