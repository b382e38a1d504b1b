#include "gate.h"
#include "kernels.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NSPANS = 3, LEAVES_MAX = 256, GRANULE = 4 * LEAF_SIZE };

#define FOREVER clock_deadline(60 * CLOCK_NS_PER_S)

/* A device, some state of every shape, and an arena with a plan for it. */
struct world {
	struct device *dev;
	struct plan *plan;
	struct span spans[NSPANS];
	char *state, *arena, *packed; /* packed: what the arena must hold */
	uint64_t bytes, nleaves;
	_Atomic uint64_t progress;
	_Atomic uint32_t done;
	uint64_t leaves[LEAVES_MAX], before[LEAVES_MAX], want[LEAVES_MAX];
	struct capture_target target;
	struct err err;
};

static uint64_t span_leaves(const struct span *span)
{
	return leaf_count(span_bytes(span));
}

static void expect_state(struct world *w)
{
	for (int i = 0; i < NSPANS; i++) {
		const struct span *span = &w->spans[i];
		span_pack(span, w->packed + span->arena_at, 0, span_bytes(span));
		digest_leaves(w->packed + span->arena_at, span_bytes(span), w->want + span->first_leaf);
	}
}

static struct world *world_make(void)
{
	struct world *w = calloc(1, sizeof(*w));
	uint64_t half = 24 * LEAF_SIZE;
	w->state = gate_memory(4 * half);
	for (uint64_t i = 0; i < 4 * half / 8; i++)
		((uint64_t *)w->state)[i] = (i + 1) * 0x9e3779b97f4a7c15ull;
	w->spans[0] = (struct span){.memory = w->state, .row_bytes = half + 100};
	w->spans[1] = (struct span){
		.memory = w->state + 2 * half, .row_bytes = 48, .ndim = 2, .count = {3, 4001}, .stride = {48, 160}};
	w->spans[2] = (struct span){.memory = w->state + 3 * half,
				    .row_bytes = 1000,
				    .ndim = 1,
				    .count = {500},
				    .stride = {1024},
				    .skip = 12345,
				    .take = 400000};
	for (int i = 0; i < NSPANS; i++) {
		w->spans[i].arena_at = w->bytes;
		w->spans[i].first_leaf = w->nleaves;
		w->bytes += span_bytes(&w->spans[i]);
		w->nleaves += span_leaves(&w->spans[i]);
	}
	cr_assert_leq(w->nleaves, LEAVES_MAX);
	w->arena = gate_memory(w->bytes + LEAF_SIZE);
	w->packed = calloc(1, w->bytes);
	expect_state(w);
	w->target = (struct capture_target){
		.progress = &w->progress, .done = &w->done, .leaves = w->leaves, .before = w->before};
	cr_assert_eq(device_host.open(DEVICE_HOST, &w->dev, &w->err), 0);
	cr_assert_eq(device_host.plan_new(w->dev, w->arena, w->spans, NSPANS, GRANULE, 0, &w->plan, &w->err), 0);
	return w;
}

static void world_free(struct world *w)
{
	device_host.plan_free(w->plan);
	device_host.close(w->dev);
	free(w->packed);
	free(w);
}

static int launch(struct world *w, unsigned flags)
{
	return device_host.plan_launch(w->plan, NULL, &w->target, flags, &w->err);
}

static int fence(struct world *w, uint64_t *bad_leaf)
{
	return device_host.plan_fence(w->plan, FENCE_ALL, NULL, FOREVER, bad_leaf, &w->err);
}

static uint32_t done_now(struct world *w)
{
	return atomic_load(&w->done);
}

Test(device_host, a_capture_packs_and_digests_every_leaf)
{
	struct world *w = world_make();
	memset(w->arena, 0x77, w->bytes + LEAF_SIZE);
	cr_assert_eq(launch(w, 0), 0);
	cr_assert_eq(fence(w, NULL), 0, "%s", w->err.text);
	cr_assert_arr_eq(w->arena, w->packed, w->bytes);
	cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8);
	cr_assert_eq(w->arena[w->bytes], 0x77);
	cr_assert_eq(atomic_load(&w->progress), w->bytes);
	cr_assert_eq(done_now(w), 1u);
	cr_assert(device_host.digests(w->dev));
	world_free(w);
}

Test(device_host, without_digests_the_bytes_are_the_same)
{
	struct world *w = world_make();
	w->target.leaves = NULL;
	cr_assert_eq(launch(w, 0), 0);
	cr_assert_eq(fence(w, NULL), 0);
	cr_assert_arr_eq(w->arena, w->packed, w->bytes);
	world_free(w);
}

Test(device_host, launch_returns_while_the_copy_runs)
{
	struct world *w = world_make();
	gate_close(w->arena + 5 * LEAF_SIZE);
	cr_assert_eq(launch(w, 0), 0);
	gate_await();
	cr_assert_eq(device_host.plan_fence(w->plan, FENCE_ALL, NULL, 0, NULL, &w->err), -ETIMEDOUT);
	cr_assert(strstr(w->err.text, "bytes were copied by the deadline"), "%s", w->err.text);
	cr_assert_eq(launch(w, 0), -EBUSY);
	cr_assert_eq(done_now(w), 0u);
	gate_open();
	cr_assert_eq(fence(w, NULL), 0);
	cr_assert_eq(done_now(w), 1u);
	cr_assert_eq(launch(w, 0), 0);
	cr_assert_eq(fence(w, NULL), 0);
	world_free(w);
}

Test(device_host, a_cancelled_launch_ends_early_and_the_next_one_is_whole)
{
	struct world *w = world_make();
	gate_close(w->arena + 5 * LEAF_SIZE);
	cr_assert_eq(launch(w, 0), 0);
	gate_await();
	device_host.plan_cancel(w->plan);
	gate_open();
	cr_assert_eq(fence(w, NULL), -ECANCELED);
	cr_assert_lt(atomic_load(&w->progress), w->bytes);
	cr_assert_eq(done_now(w), (uint32_t)-ECANCELED);
	device_host.plan_cancel(w->plan);
	cr_assert_eq(launch(w, 0), 0);
	cr_assert_eq(fence(w, NULL), 0, "%s", w->err.text);
	cr_assert_arr_eq(w->arena, w->packed, w->bytes);
	world_free(w);
}

Test(device_host, progress_is_never_ahead_of_the_bytes_nor_a_granule_behind)
{
	for (uint64_t at = 0; at < 24; at += 3) {
		struct world *w = world_make();
		gate_close(w->arena + at * LEAF_SIZE);
		cr_assert_eq(launch(w, 0), 0);
		gate_await();
		uint64_t told = atomic_load(&w->progress);
		cr_assert_leq(told, at * LEAF_SIZE);
		cr_assert_gt(told + GRANULE, at * LEAF_SIZE);
		cr_assert_arr_eq(w->arena, w->packed, told);
		gate_open();
		cr_assert_eq(fence(w, NULL), 0);
		cr_assert_eq(atomic_load(&w->progress), w->bytes);
		world_free(w);
	}
}

Test(device_host, a_digest_is_born_before_its_bytes_reach_the_arena)
{
	struct world *w = world_make();
	gate_close(w->arena + 9 * LEAF_SIZE);
	cr_assert_eq(launch(w, 0), 0);
	gate_await();
	cr_assert_eq(w->leaves[9], w->want[9]);
	cr_assert_eq(w->leaves[10], 0u);
	gate_open();
	cr_assert_eq(fence(w, NULL), 0);
	world_free(w);
}

static void mutate_while_strict(uint64_t leaf)
{
	struct world *w = world_make();
	uint64_t bad_leaf = 0;
	gate_close(w->arena + 9 * LEAF_SIZE);
	cr_assert_eq(launch(w, CAPTURE_STRICT), 0);
	cr_assert_arr_eq(w->before, w->want, w->nleaves * 8);
	gate_await();
	w->state[leaf * LEAF_SIZE + 17] ^= 4;
	gate_open();
	cr_assert_eq(fence(w, &bad_leaf), -EBADMSG);
	cr_assert_eq(bad_leaf, leaf);
	cr_assert(strstr(w->err.text, "was changed while it was captured"));
	cr_assert_eq(done_now(w), (uint32_t)-EBADMSG);
	cr_assert_eq(fence(w, &bad_leaf), -EBADMSG);
	world_free(w);
}

Test(device_host, strict_sees_a_mutation_of_what_was_not_copied_yet)
{
	mutate_while_strict(15);
}

Test(device_host, strict_sees_a_mutation_behind_the_copy)
{
	mutate_while_strict(2);
}

Test(device_host, strict_lets_an_undisturbed_state_pass)
{
	struct world *w = world_make();
	cr_assert_eq(launch(w, CAPTURE_STRICT), 0);
	cr_assert_eq(fence(w, NULL), 0);
	cr_assert_eq(done_now(w), 1u);
	w->target.before = NULL;
	cr_assert_eq(launch(w, CAPTURE_STRICT), -EINVAL);
	world_free(w);
}

Test(device_host, a_plan_is_launched_again_with_new_state)
{
	struct world *w = world_make();
	for (int round = 0; round < 20; round++) {
		memset(w->state + 1000, round, 100000);
		expect_state(w);
		cr_assert_eq(launch(w, 0), 0);
		cr_assert_eq(fence(w, NULL), 0);
		cr_assert_arr_eq(w->arena, w->packed, w->bytes);
		cr_assert_arr_eq(w->leaves, w->want, w->nleaves * 8);
	}
	world_free(w);
}

Test(device_host, a_fence_needs_a_launch)
{
	struct world *w = world_make();
	cr_assert_eq(fence(w, NULL), -EINVAL);
	world_free(w);
}

Test(device_host, an_empty_plan_completes)
{
	struct world *w = world_make();
	device_host.plan_free(w->plan);
	cr_assert_eq(device_host.plan_new(w->dev, w->arena, NULL, 0, GRANULE, 0, &w->plan, &w->err), 0);
	cr_assert_eq(launch(w, CAPTURE_STRICT), 0);
	cr_assert_eq(fence(w, NULL), 0);
	cr_assert_eq(done_now(w), 1u);
	cr_assert_eq(atomic_load(&w->progress), 0u);
	world_free(w);
}

Test(device_host, bad_arguments_are_refused)
{
	struct device *dev;
	struct plan *plan;
	struct err err;
	cr_assert_eq(device_host.open(0, &dev, &err), -EINVAL);
	cr_assert_null(dev);
	cr_assert_eq(device_host.open(DEVICE_HOST, &dev, &err), 0);
	struct span span = {.row_bytes = 8};
	cr_assert_eq(device_host.plan_new(dev, NULL, &span, 1, GRANULE, 0, &plan, &err), -EINVAL);
	cr_assert_null(plan);
	cr_assert_eq(device_host.plan_new(dev, NULL, NULL, 0, 0, 0, &plan, &err), -EINVAL);
	device_host.close(dev);
	device_host.close(NULL);
	device_host.plan_free(NULL);
}

Test(device_host, a_queued_plan_is_freed_without_waiting_for_the_running_one)
{
	struct world *w = world_make();
	struct plan *second;
	_Atomic uint64_t progress;
	_Atomic uint32_t done;
	struct capture_target target = {.progress = &progress, .done = &done};
	cr_assert_eq(device_host.plan_new(w->dev, w->arena, w->spans, NSPANS, GRANULE, 0, &second, NULL), 0);
	gate_close(w->arena + LEAF_SIZE);
	cr_assert_eq(launch(w, 0), 0);
	gate_await();
	cr_assert_eq(device_host.plan_launch(second, NULL, &target, 0, NULL), 0);
	device_host.plan_free(second);
	cr_assert_eq(atomic_load(&done), (uint32_t)-ECANCELED);
	gate_open();
	cr_assert_eq(fence(w, NULL), 0);
	world_free(w);
}

static void *close_device(void *arg)
{
	device_host.close(arg);
	return NULL;
}

Test(device_host, close_cancels_what_is_in_flight)
{
	struct world *w = world_make();
	struct plan *second;
	_Atomic uint64_t progress;
	_Atomic uint32_t done;
	struct capture_target target = {.progress = &progress, .done = &done};
	pthread_t closer;
	cr_assert_eq(device_host.plan_new(w->dev, w->arena, w->spans, NSPANS, GRANULE, 0, &second, NULL), 0);
	gate_close(w->arena + LEAF_SIZE);
	cr_assert_eq(launch(w, 0), 0);
	gate_await();
	cr_assert_eq(device_host.plan_launch(second, NULL, &target, 0, NULL), 0);
	cr_assert_eq(pthread_create(&closer, NULL, close_device, w->dev), 0);
	while (!atomic_load(&done)) /* close has cancelled the queue, and the running one before it */
		sched_yield();
	gate_open();
	pthread_join(closer, NULL);
	cr_assert_eq(atomic_load(&done), (uint32_t)-ECANCELED);
	cr_assert_eq(done_now(w), (uint32_t)-ECANCELED);
	cr_assert_eq(fence(w, NULL), -ECANCELED);
	cr_assert_eq(launch(w, 0), -ECANCELED);
	/* Plans outlive their device. */
	device_host.plan_free(second);
	device_host.plan_free(w->plan);
	free(w->packed);
	free(w);
}

Test(device_host, freeing_a_running_plan_stops_it)
{
	for (int round = 0; round < 50; round++) {
		struct world *w = world_make();
		cr_assert_eq(launch(w, 0), 0);
		device_host.plan_free(w->plan);
		uint32_t done = done_now(w);
		cr_assert(done == 1 || done == (uint32_t)-ECANCELED);
		w->plan = NULL;
		world_free(w);
	}
}

static int restore(struct world *w, const uint64_t *leaves, uint64_t *bad_leaf)
{
	return device_host.restore(w->dev, w->packed, w->spans, NSPANS, leaves, NULL, bad_leaf, &w->err);
}

Test(device_host, restore_brings_back_every_byte_and_no_other)
{
	struct world *w = world_make();
	uint64_t all = 4 * 24 * LEAF_SIZE;
	char *saved = malloc(all), *again = calloc(1, w->bytes);
	memcpy(saved, w->state, all);
	for (int i = 0; i < NSPANS; i++)
		span_unpack(&w->spans[i], again, 0, span_bytes(&w->spans[i]));
	cr_assert_neq(memcmp(saved, w->state, all), 0);
	cr_assert_eq(restore(w, w->want, NULL), 0);
	cr_assert_arr_eq(w->state, saved, all);
	free(again);
	free(saved);
	world_free(w);
}

Test(device_host, restore_names_the_leaf_that_arrived_damaged)
{
	struct world *w = world_make();
	for (int i = 0; i < NSPANS; i++) {
		uint64_t bad_leaf = 0, last = span_leaves(&w->spans[i]) - 1;
		char *byte = w->packed + w->spans[i].arena_at + last * LEAF_SIZE + 11;
		*byte ^= 1;
		cr_assert_eq(restore(w, w->want, &bad_leaf), -EBADMSG);
		cr_assert_eq(bad_leaf, w->spans[i].first_leaf + last);
		cr_assert_eq(restore(w, NULL, &bad_leaf), 0);
		*byte ^= 1;
	}
	cr_assert_eq(restore(w, w->want, NULL), 0);
	world_free(w);
}

Test(device_host, state_on_the_host_is_not_staged)
{
	struct world *w = world_make();
	struct plan *plan;
	cr_assert_eq(device_host.plan_new(w->dev, w->arena, w->spans, NSPANS, GRANULE, PLAN_STAGED, &plan, &w->err),
		     -EOPNOTSUPP);
	world_free(w);
}

#ifdef CKPT_FAILPOINTS
Test(device_host, injected_failures_are_reported_where_they_belong)
{
	struct world *w = world_make();
	cr_assert_eq(
		failpoint_arm("device.launch=error:ENOMEM@1,device.copy=error:EIO@1,device.restore=error:EIO", &w->err),
		0, "%s", w->err.text);
	cr_assert_eq(launch(w, 0), -ENOMEM);
	cr_assert_eq(launch(w, 0), 0);
	cr_assert_eq(fence(w, NULL), -EIO);
	cr_assert_eq(done_now(w), (uint32_t)-EIO);
	cr_assert_eq(restore(w, NULL, NULL), -EIO);
	cr_assert_eq(launch(w, 0), 0);
	cr_assert_eq(fence(w, NULL), 0);
	world_free(w);
}
#endif

/* ---- the arena is touched in the background ---------------------------------------------------------------------- */

enum { ARENA_BYTES = 64 << 20 };

static char *map_untouched(void)
{
	int fd = memfd_create("arena", MFD_CLOEXEC);
	cr_assert_eq(ftruncate(fd, ARENA_BYTES), 0);
	char *p = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(p, MAP_FAILED);
	close(fd);
	return p;
}

static size_t resident(char *p)
{
	static unsigned char page[ARENA_BYTES / 4096];
	size_t n = 0;
	cr_assert_eq(mincore(p, ARENA_BYTES, page), 0);
	for (size_t i = 0; i < sizeof(page); i++)
		n += page[i] & 1;
	return n;
}

Test(device_host, an_attached_arena_is_touched_before_its_first_capture)
{
	struct device *dev;
	char *arena = map_untouched();
	cr_assert_eq(device_host.open(DEVICE_HOST, &dev, NULL), 0);
	cr_expect_eq(resident(arena), 0);
	cr_assert_eq(device_host.arena_attach(dev, arena, ARENA_BYTES, NULL), 0);
	for (uint64_t deadline = FOREVER; resident(arena) < ARENA_BYTES / 4096;) {
		cr_assert_lt(clock_now(), deadline, "%zu pages", resident(arena));
		sched_yield();
	}
	device_host.arena_detach(dev, arena);
	munmap(arena, ARENA_BYTES);
	device_host.close(dev);
}

Test(device_host, an_arena_can_be_detached_while_it_is_touched)
{
	struct device *dev;
	cr_assert_eq(device_host.open(DEVICE_HOST, &dev, NULL), 0);
	for (int i = 0; i < 20; i++) {
		char *arena = map_untouched();
		cr_assert_eq(device_host.arena_attach(dev, arena, ARENA_BYTES, NULL), 0);
		while (i % 2 && !resident(arena))
			sched_yield();
		device_host.arena_detach(dev, arena);
		munmap(arena, ARENA_BYTES);
		/* Whatever takes the place is not written to. */
		char *other = mmap(arena, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
				   -1, 0);
		cr_expect_eq(resident(other), 0);
		munmap(other, ARENA_BYTES);
	}
	device_host.close(dev);
}
