/* A restore to the device out of storage, as a rank sees it: read, checked, loaded while the rest is read, and checked again on the device. Under
 * `ckpt run --store DIR -n 1`; for scripts/gpu-check, which compares it with the slower of the disk's reading and one large copy out of
 * pinned memory. Prints its times for that.
 *
 *   bench_gpu_stored [GIB] */
#include "shared/gpu_state.h"

#include "base/bytes.h"

enum { ROUNDS = 3, KEPT = 5 /* later saves, after which the slot of the first has been given back */ };

static void save(struct gpu *g, const struct gpu_state *state, uint64_t step, ckpt_target target)
{
	ckpt_snapshot *snap;
	gpu_state_fill(g, state, step);
	gpu_state_must(state, ckpt_begin(state->s, step, target, g->stream, &snap), "begin");
	gpu_state_must(state, ckpt_fence(snap, g->stream), "fence");
	gpu_drain(g, g->stream);
	gpu_state_must(state, ckpt_wait(snap, target == CKPT_STORAGE ? CKPT_DURABLE : CKPT_CAPTURED, -1), "save");
	ckpt_snapshot_free(snap);
}

/* Of step 1. */
static double restore(struct gpu *g, const struct gpu_state *state, double *early)
{
	ckpt_restored r = CKPT_INIT(ckpt_restored);
	gpu_state_must(state, ckpt_join(state->s, NULL, 0, NULL, -1), "join");
	double began = gpu_seconds();
	gpu_state_must(state, ckpt_restore(state->s, 1, g->stream, &r, -1), "restore");
	double took = gpu_seconds() - began;
	if (r.source != CKPT_FROM_STORAGE)
		gpu_end("it was not restored out of storage: %s", r.why);
	gpu_state_expect(g, state, 1);
	*early = (double)r.early_bytes / (double)r.bytes;
	return took;
}

/* The fastest of a few. */
static double copy(struct gpu *g, const struct gpu_state *state)
{
	struct err err;
	size_t bytes = state->each;
	double best = 1e9;
	char *pinned = gpu_arena(align_up(bytes, 4096));
	gpu_must(g->ops->arena_attach(g->dev, pinned, align_up(bytes, 4096), &err), &err, "pinning");
	for (int round = 0; round < ROUNDS; round++) {
		double began = gpu_seconds();
		for (int i = 0; i < GPU_TENSORS; i++)
			gpu_check(g, g->rt->copy(g->rt, state->tensors[i], pinned, bytes, g->stream), "copying");
		gpu_drain(g, g->stream);
		double took = gpu_seconds() - began;
		best = took < best ? took : best;
	}
	g->ops->arena_detach(g->dev, pinned);
	return best;
}

int main(int argc, char **argv)
{
	struct gpu g = gpu_open();
	size_t bytes = gpu_argument_gib(argc, argv, 1, 20);
	struct gpu_state state = gpu_state_open(&g, bytes);
	double best = 1e9, early = 0;
	uint64_t step = 1;
	save(&g, &state, step, CKPT_STORAGE);
	for (int round = 0; round < ROUNDS; round++) {
		double part;
		for (int i = 0; i < KEPT; i++)
			save(&g, &state, ++step, CKPT_MEMORY);
		double took = restore(&g, &state, &part);
		early = took < best ? part : early;
		best = took < best ? took : best;
	}
	gpu_time("bytes", (double)state.each * GPU_TENSORS);
	gpu_time("restored", best);
	gpu_time("early", early);
	gpu_time("copied", copy(&g, &state));
	return ckpt_close(state.s) ? 1 : 0;
}
