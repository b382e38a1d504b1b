/* Streams that share the hardware queues of a GPU: the capture must neither be held up by the training, nor hold it up. */
#include "cuda_world.h"

#include <criterion/criterion.h>

enum { SEEDS = 40, STREAMS = 16 };

struct mark {
	struct cuda_world *w;
	uint64_t at; /* the progress when it ran */
};

static void note_progress(void *arg)
{
	struct mark *mark = arg;
	mark->at = atomic_load(mark->w->progress);
}

/* Kernels of other streams behind the launch, and one of the training stream that is not fenced. Returns how many ran before all was
 * copied. */
static int kernels_that_ran_early(uint64_t seed, unsigned connections)
{
	struct cuda_world *w = cuda_world_make(seed);
	struct rt_stream *others[STREAMS];
	struct mark marks[STREAMS];
	int early = 0;
	cuda_fake_connections(w->fake, connections);
	cuda_fake_fill(w->fake, seed % 2); /* a full GPU, too */
	cuda_fake_hold(w->fake, true);
	cuda_world_kernel(w, 1);
	cr_assert_eq(cuda_world_launch(w), 0, "%s", w->err.text);
	for (int i = 0; i < STREAMS; i++) {
		others[i] = cuda_fake_stream(w->fake);
		marks[i] = (struct mark){.w = w};
		cuda_fake_call(w->fake, others[i], note_progress, &marks[i]);
	}
	cr_assert_eq(cuda_world_fence(w), 0, "%s", w->err.text);
	cuda_world_kernel(w, 2);
	cuda_fake_hold(w->fake, false);
	cuda_fake_settle(w->fake);
	cuda_world_expect(w, 1);
	cr_assert(cuda_world_matches(w), "seed %lu", seed);
	cr_assert_eq(atomic_load(w->done), 1u, "seed %lu", seed);
	cuda_fake_fill(w->fake, false);
	for (int i = 0; i < STREAMS; i++) {
		early += marks[i].at < w->bytes;
		cr_assert_eq(cuda_fake_rt(w->fake)->stream_destroy(cuda_fake_rt(w->fake), others[i]), 0);
	}
	cuda_world_free(w);
	return early;
}

Test(cuda_queues, other_streams_run_while_the_state_is_copied)
{
	for (unsigned connections = 1; connections <= 8; connections *= 8) {
		int early = 0;
		for (uint64_t seed = 0; seed < SEEDS; seed++)
			early += kernels_that_ran_early(seed, connections);
		cr_assert_gt(early, SEEDS / 2, "%u connections: %d of %d", connections, early, SEEDS * STREAMS);
	}
}
