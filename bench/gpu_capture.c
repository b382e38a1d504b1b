/* A capture: what begin costs the host, how fast the copy is against one large copy into pinned memory, what it costs steps that fill the
 * GPU at the same time, on 2 streams and on 16, and how long the stream waits at the fence. For scripts/gpu-check.
 *
 * Begin and copy are measured with tensors that adjoin, as in a flat buffer, and with tensors that stand apart, each of which is a copy.
 * What was captured is verified, also of a capture beside the work.
 *
 *   bench_gpu_capture [GIB [TENSORS [VALUES [SECONDS]]]]     VALUES: that the work goes over; SECONDS: of a step, at least */
#include "shared/gpu.h"
#include "shared/gpu_load.h"
#include "shared/gpu_quantile.h"
#include "shared/gpu_training.h"
#include "shared/gpu_verify.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "client/capture/capture.h"
#include "format/tensor/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, STEPS = 20, SMALL = 16 << 10, HEAD = 4096, GAP = 256, SEED = 1 };

struct load {
	struct gpu g;
	size_t n, bytes, gap, arena_bytes;
	double step_s; /* at least */
	double read_s; /* what it takes the GPU to read the state once */
	struct span *spans;
	char *memory, *arena;
	struct gpu_training training;
	struct plan *plan;
	struct capture_target target;
};

/* Every second tensor is small, as biases and norms are; the others share the rest. */
static void place_spans(struct load *l, size_t gap)
{
	size_t at = 0, memory_at = 0;
	uint64_t leaves = 0;
	size_t large = (l->bytes - l->n / 2 * SMALL) / (l->n - l->n / 2) / 256 * 256;
	l->gap = gap;
	for (size_t i = 0; i < l->n; i++) {
		size_t bytes = i % 2 ? SMALL : large;
		l->spans[i] = (struct span){
			.memory = l->memory + memory_at, .row_bytes = bytes, .arena_at = at, .first_leaf = leaves};
		at += bytes;
		memory_at += bytes + gap;
		leaves += leaf_count(bytes);
	}
	l->bytes = at;
	l->target = (struct capture_target){.progress = (void *)l->arena,
					    .done = (void *)(l->arena + 64),
					    .leaves = (void *)(l->arena + HEAD + align_up(at, HEAD))};
}

/* With the steps of the counter that the library gives it. */
static void make_plan(struct load *l, size_t gap)
{
	struct err err;
	l->g.ops->plan_free(l->plan);
	place_spans(l, gap);
	gpu_must(l->g.ops->plan_new(l->g.dev, l->arena + HEAD, l->spans, l->n, capture_granule(0, l->bytes), 0,
				    &l->plan, &err),
		 &err, "making a plan");
}

/* The fastest of a few. */
static double time_reading(struct load *l)
{
	double best = 1e9;
	void *sum = gpu_memory(&l->g, 8);
	for (int i = 0; i < ROUNDS; i++) {
		double began = gpu_seconds();
		gpu_check(&l->g, gpu_sweep(l->memory, l->bytes, gpu_blocks(l->bytes), sum, l->g.stream), "sweeping");
		gpu_drain(&l->g, l->g.stream);
		double took = gpu_seconds() - began;
		best = took < best ? took : best;
	}
	return best;
}

static void make(struct load *l)
{
	struct err err;
	size_t room = l->bytes + l->n * GAP;
	l->g = gpu_open();
	if (l->bytes / l->n < SMALL)
		gpu_end("%zu bytes are too few for %zu tensors, every second of which has %d", l->bytes, l->n, SMALL);
	l->memory = gpu_memory(&l->g, room);
	l->arena_bytes = align_up(l->bytes + l->bytes / 4096 + l->n * 8 + (1 << 20), 4096);
	l->arena = gpu_arena(l->arena_bytes);
	l->spans = calloc(l->n, sizeof(*l->spans));
	gpu_check(&l->g, gpu_fill(l->memory, room, SEED, l->g.stream), "filling the memory");
	gpu_drain(&l->g, l->g.stream);
	gpu_must(l->g.ops->arena_attach(l->g.dev, l->arena, l->arena_bytes, &err), &err, "pinning the arena");
	l->read_s = time_reading(l);
}

/* That of the saves. */
static struct rt_stream *stream(const struct load *l)
{
	return l->training.streams[0];
}

static double begin(struct load *l)
{
	struct err err;
	double began = gpu_seconds();
	gpu_must(l->g.ops->plan_launch(l->plan, stream(l), &l->target, 0, &err), &err, "starting a capture");
	return gpu_seconds() - began;
}

static void await_done(struct load *l)
{
	struct err err;
	double began = gpu_seconds(), asked = began;
	uint32_t done;
	while (!(done = atomic_load(l->target.done))) {
		double now = gpu_seconds();
		if (now - began > 60)
			gpu_end("the capture is not done after 60 s");
		if (now - asked < 1e-3)
			continue;
		/* A GPU that has died never says so in its counters. */
		int code = l->g.rt->stream_query(l->g.rt, stream(l));
		gpu_check(&l->g, code == RT_NOT_READY ? 0 : code, "waiting for the capture");
		asked = now;
	}
	if (done != 1)
		gpu_end("the capture failed: %s", err_name((int)done));
	gpu_drain(&l->g, stream(l));
	/* The number comes a moment before the plan can be launched again. */
	gpu_must(l->g.ops->idle(l->g.dev, clock_deadline(CLOCK_NS_PER_S), &err), &err, "ending the capture");
}

/* Bytes and digests of the arena are those of the device's memory. */
static void expect_captured(const struct load *l)
{
	const char *data = l->arena + HEAD;
	if (atomic_load(l->target.progress) != l->bytes)
		gpu_end("the capture is done, and its counter stands at %llu of %zu bytes",
			(unsigned long long)atomic_load(l->target.progress), l->bytes);
	for (size_t i = 0; i < l->n; i++) {
		const struct span *span = &l->spans[i];
		gpu_expect_words("capture", data + span->arena_at, span->row_bytes, SEED, span->arena_at + i * l->gap);
		gpu_expect_leaves("capture", data + span->arena_at, span->row_bytes,
				  l->target.leaves + span->first_leaf);
	}
}

static void forget(struct load *l)
{
	memset(l->arena + HEAD, 0, l->arena_bytes - HEAD);
}

static double time_capture(struct load *l)
{
	double began = gpu_seconds();
	begin(l);
	await_done(l);
	return gpu_seconds() - began;
}

static double time_copy(struct load *l)
{
	double began = gpu_seconds();
	gpu_check(&l->g, l->g.rt->copy(l->g.rt, l->arena + HEAD, l->memory, l->bytes, stream(l)), "copying");
	gpu_drain(&l->g, stream(l));
	return gpu_seconds() - began;
}

static double begin_and_copy(struct load *l, const char *how)
{
	double begins[ROUNDS], ratios[ROUNDS], copy = 1e9;
	char name[100];
	forget(l);
	time_capture(l);
	expect_captured(l);
	time_copy(l);
	for (int i = 0; i < ROUNDS; i++) {
		double of_copy = time_copy(l), of_capture = time_capture(l);
		ratios[i] = of_copy / of_capture;
		copy = of_copy < copy ? of_copy : copy;
		begins[i] = begin(l) * 1e6;
		await_done(l);
	}
	snprintf(name, sizeof(name), "host time of begin, p50, %zu tensors that %s, %.3g GiB", l->n, how,
		 (double)l->bytes / 0x1p30);
	gpu_figure(name, gpu_quantile(begins, ROUNDS, 0.5), "us", 150, false, "no limit: the host's own time");
	snprintf(name, sizeof(name), "capture of tensors that %s against one pinned copy", how);
	gpu_figure(name, gpu_quantile(ratios, ROUNDS, 0.5), "of it", 0.97, true, "one copy: %.1f GB/s",
		   (double)l->bytes / copy / 1e9);
	return copy;
}

/* Seconds between the end of the step's work, on all its streams, and the end of the fence, on that of the saves. */
static double wait_at_fence(struct load *l)
{
	struct err err;
	struct cuda_rt *rt = l->g.rt;
	struct rt_event *worked;
	int code;
	gpu_check(&l->g, rt->event_create(rt, &worked), "creating an event");
	begin(l);
	gpu_training_start(&l->training);
	gpu_training_join(&l->training);
	gpu_check(&l->g, rt->event_record(rt, worked, stream(l)), "recording an event");
	gpu_must(l->g.ops->plan_fence(l->plan, FENCE_ALL, stream(l), 0, NULL, &err), &err, "fence");
	while ((code = rt->event_query(rt, worked)) == RT_NOT_READY)
		;
	gpu_check(&l->g, code, "waiting for the step");
	double wait = gpu_wait(&l->g, stream(l));
	gpu_training_drain(&l->training);
	await_done(l);
	gpu_check(&l->g, rt->event_destroy(rt, worked), "destroying an event");
	return wait;
}

static double step_with_capture(struct load *l)
{
	double began = gpu_seconds();
	begin(l);
	gpu_training_start(&l->training);
	gpu_training_drain(&l->training);
	double took = gpu_seconds() - began;
	await_done(l);
	return took;
}

/* Steps with a capture and steps without one take turns: equally many, of which the same quantiles are compared. */
static void step_and_fence(struct load *l, unsigned nstreams, double copy)
{
	static const struct {
		double q, most;
		const char *name;
	} quantiles[] = {{0.5, 1.01, "p50"}, {0.95, 1.02, "p95"}};
	double alone[STEPS], with[STEPS], waits[ROUNDS];
	char name[120];
	gpu_training_spread(&l->training, nstreams, copy * 1.3 > l->step_s ? copy * 1.3 : l->step_s);
	for (int i = 0; i < STEPS; i++) {
		alone[i] = gpu_training_step(&l->training);
		if (i == STEPS - 1)
			forget(l);
		with[i] = step_with_capture(l);
	}
	expect_captured(l);
	for (int i = 0; i < ROUNDS; i++)
		waits[i] = wait_at_fence(l) * 1e6;
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(*quantiles); i++) {
		double q = quantiles[i].q, without = gpu_quantile(alone, STEPS, q);
		snprintf(name, sizeof(name), "step with a capture, digests included, %u streams: %s", nstreams,
			 quantiles[i].name);
		gpu_figure(name, gpu_quantile(with, STEPS, q) / without, "of steps alone", quantiles[i].most, false,
			   "%d steps alone: %s %.1f ms, %u blocks fill the GPU; it reads the state once in %.2f ms",
			   STEPS, quantiles[i].name, without * 1e3, l->training.blocks, l->read_s * 1e3);
	}
	snprintf(name, sizeof(name), "wait of the stream at the fence, %u streams: p50", nstreams);
	gpu_figure(name, gpu_quantile(waits, ROUNDS, 0.5), "us", 20, false,
		   "asking the driver takes some us; the copy %.0f ms", copy * 1e3);
}

int main(int argc, char **argv)
{
	struct load l = {.bytes = gpu_argument_gib(argc, argv, 1, 20),
			 .n = (size_t)gpu_argument(argc, argv, 2, "TENSORS", 5000, 1, 1e6),
			 .step_s = gpu_argument(argc, argv, 4, "SECONDS", 0.6, 0, 60)};
	make(&l);
	l.training = gpu_training_make(&l.g, (uint64_t)gpu_argument(argc, argv, 3, "VALUES", GPU_VALUES, 256, 1e10));
	make_plan(&l, GAP);
	begin_and_copy(&l, "stand apart");
	make_plan(&l, 0);
	double copy = begin_and_copy(&l, "adjoin");
	step_and_fence(&l, 2, copy);
	step_and_fence(&l, GPU_STREAMS_MAX, copy);
	l.g.ops->plan_free(l.plan);
	l.g.ops->arena_detach(l.g.dev, l.arena);
	l.g.ops->close(l.g.dev);
	return 0;
}
