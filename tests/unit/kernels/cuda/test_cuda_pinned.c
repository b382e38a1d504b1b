/* Pinning of arenas on the CUDA device over the fake runtime. */
#include "cuda/cuda_pinned.h"
#include "cuda_world.h"

#include "base/bytes.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct device_ops *const ops = &device_cuda_ops;

/* The runtime takes less at once than the arena has. */
static struct cuda_world *world(uint64_t seed, size_t parts, bool batches)
{
	struct cuda_world *w = cuda_world_memory(seed);
	cuda_fake_rt(w->fake)->register_max = align_up(w->arena_bytes / parts, 4096);
	if (!batches)
		cuda_fake_rt(w->fake)->copy_batch = NULL;
	cuda_world_up(w, 0);
	return w;
}

Test(cuda_pinned, an_arena_too_large_for_one_registration_has_several_and_no_copy_crosses_them)
{
	for (uint64_t seed = 0; seed < 12; seed++) {
		struct cuda_world *plain = world(seed, 1, false);
		uint64_t one = cuda_fake_live(plain->fake);
		cuda_world_free(plain);
		struct cuda_world *w = world(seed, 7 + seed % 5, seed % 2);
		cr_assert_gt(cuda_fake_live(w->fake), one + 4, "registrations");
		cr_assert(cuda_is_pinned(w->arena, w->arena_bytes));
		cr_assert(!cuda_is_pinned(w->arena, w->arena_bytes + 1));
		cuda_world_kernel(w, 7);
		cuda_world_expect(w, 7);
		cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
		cr_assert_eq(cuda_world_fence(w), 0, "%s", w->err.text);
		cuda_fake_settle(w->fake);
		cr_assert(cuda_world_matches(w) && cuda_world_digests_match(w));
		cuda_world_kernel(w, 8);
		cr_assert_eq(ops->restore(w->dev, w->data, w->spans, WORLD_SPANS, w->want, w->stream, NULL, &w->err), 0,
			     "%s", w->err.text);
		cuda_world_free(w);
	}
}

/* ---- while another thread pins ------------------------------------------------------------------------------------ */

static int (*plain_register)(struct cuda_rt *rt, void *base, size_t size);
static pthread_barrier_t begun, let_go;

static int slow_register(struct cuda_rt *rt, void *base, size_t size)
{
	pthread_barrier_wait(&begun);
	pthread_barrier_wait(&let_go);
	return plain_register(rt, base, size);
}

struct pinning {
	struct cuda_world *w;
	char *memory;
	struct err err;
};

static void *attach(void *arg)
{
	struct pinning *p = arg;
	cr_assert_eq(ops->arena_attach(p->w->dev, p->memory, 1 << 16, &p->err), 0, "%s", p->err.text);
	return NULL;
}

Test(cuda_pinned, nothing_waits_while_another_thread_pins)
{
	struct cuda_world *w = cuda_world_make(4);
	struct pinning p = {.w = w, .memory = aligned_alloc(4096, 1 << 16)};
	pthread_t thread;
	pthread_barrier_init(&begun, NULL, 2);
	pthread_barrier_init(&let_go, NULL, 2);
	plain_register = cuda_fake_rt(w->fake)->host_register;
	cuda_fake_rt(w->fake)->host_register = slow_register;
	pthread_create(&thread, NULL, attach, &p);
	pthread_barrier_wait(&begun);
	cr_assert(cuda_is_pinned(w->arena, w->arena_bytes));
	cr_assert(!cuda_is_pinned(p.memory, 1));
	cr_assert_eq(ops->arena_attach(w->dev, p.memory, 1 << 16, &w->err), -EBUSY);
	cuda_world_kernel(w, 7);
	cuda_world_expect(w, 7);
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	cr_assert_eq(cuda_world_fence(w), 0, "%s", w->err.text);
	cuda_fake_settle(w->fake);
	cr_assert(cuda_world_matches(w));
	pthread_barrier_wait(&let_go);
	pthread_join(thread, NULL);
	cr_assert(cuda_is_pinned(p.memory, 1 << 16));
	ops->arena_detach(w->dev, p.memory);
	cr_assert(!cuda_is_pinned(p.memory, 1));
	cuda_world_free(w);
	free(p.memory);
	pthread_barrier_destroy(&begun);
	pthread_barrier_destroy(&let_go);
}
