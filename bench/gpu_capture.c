/* A capture: what begin costs the host, how fast the copy is against one large copy into pinned memory, what it costs a step that
 * runs at the same time, and how long the stream waits at the fence. For scripts/gpu-check, which runs it with both values of
 * CKPT_CUDA_CAPTURE.
 *
 *   bench_gpu_capture [GIB [TENSORS]] */
#include "shared/gpu.h"
#include "shared/gpu_load.h"

#include "base/bytes.h"
#include "format/tensor/digest.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 9, BLOCKS = 1024, SMALL = 16 << 10, HEAD = 4096 };

static const uint64_t granule = 64ull << 20;

struct load {
	struct gpu g;
	const char *mode;
	size_t n, bytes, arena_bytes;
	struct span *spans;
	char *memory, *arena;
	float *values; /* of the training's work */
	uint64_t nvalues;
	unsigned rounds; /* of work in a step */
	struct plan *plan;
	struct capture_target target;
};

/* Every second tensor is small, as biases and norms are; the others share the rest. */
static void make_spans(struct load *l)
{
	size_t large = (l->bytes - l->n / 2 * SMALL) / (l->n - l->n / 2) / 256 * 256, at = 0;
	uint64_t leaves = 0;
	l->spans = calloc(l->n, sizeof(*l->spans));
	for (size_t i = 0; i < l->n; i++) {
		size_t bytes = i % 2 ? SMALL : large;
		l->spans[i] = (struct span){
			.memory = l->memory + at, .row_bytes = bytes, .arena_at = at, .first_leaf = leaves};
		at += bytes;
		leaves += leaf_count(bytes);
	}
	l->bytes = at;
	l->target = (struct capture_target){.progress = (void *)l->arena,
					    .done = (void *)(l->arena + 64),
					    .leaves = (void *)(l->arena + HEAD + align_up(at, HEAD))};
}

static void make(struct load *l, double gib, size_t n)
{
	struct err err;
	l->g = gpu_open();
	l->mode = getenv("CKPT_CUDA_CAPTURE") ? getenv("CKPT_CUDA_CAPTURE") : "graph";
	l->n = n;
	l->bytes = (size_t)(gib * 1024) << 20;
	l->memory = gpu_memory(&l->g, l->bytes);
	l->arena_bytes = align_up(l->bytes + l->bytes / 4096 + n * 8 + (1 << 20), 4096);
	l->arena = gpu_arena(l->arena_bytes);
	l->nvalues = 1 << 28;
	l->values = gpu_memory(&l->g, l->nvalues * sizeof(float));
	make_spans(l);
	gpu_must(l->g.ops->arena_attach(l->g.dev, l->arena, l->arena_bytes, &err), &err, "pinning the arena");
	gpu_must(l->g.ops->plan_new(l->g.dev, l->arena + HEAD, l->spans, n, granule, 0, &l->plan, &err), &err,
		 "making a plan");
}

static double begin(struct load *l)
{
	struct err err;
	double began = gpu_seconds();
	gpu_must(l->g.ops->plan_launch(l->plan, l->g.stream, &l->target, 0, &err), &err, "starting a capture");
	return gpu_seconds() - began;
}

static void await_done(struct load *l)
{
	double began = gpu_seconds();
	while (!atomic_load(l->target.done))
		if (gpu_seconds() - began > 60)
			gpu_must(-ETIMEDOUT, &(struct err){"not done after 60 s"}, "capture");
	if (atomic_load(l->target.done) != 1)
		gpu_must(-EIO, &(struct err){"it failed"}, "capture");
	gpu_drain(&l->g, l->g.stream);
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
	gpu_check(&l->g, l->g.rt->copy(l->g.rt, l->arena + HEAD, l->memory, l->bytes, l->g.stream), "copying");
	gpu_drain(&l->g, l->g.stream);
	return gpu_seconds() - began;
}

static void start_step(struct load *l)
{
	gpu_check(&l->g, gpu_work(l->values, l->nvalues, l->rounds, BLOCKS, l->g.stream), "working");
}

static double time_step(struct load *l)
{
	double began = gpu_seconds();
	start_step(l);
	gpu_drain(&l->g, l->g.stream);
	return gpu_seconds() - began;
}

/* Rounds of work for a step of at least half a second, and longer than the copy. */
static void size_step(struct load *l, double copy)
{
	double wanted = copy * 1.3 > 0.6 ? copy * 1.3 : 0.6;
	l->rounds = 4;
	time_step(l);
	double once = time_step(l) / l->rounds;
	l->rounds = (unsigned)(wanted / once) + 1;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), ascending);
	return v[ROUNDS / 2];
}

static double begin_and_copy(struct load *l)
{
	double begins[ROUNDS], ratios[ROUNDS], copy = 1e9;
	char name[80];
	time_capture(l); /* records */
	time_copy(l);
	for (int i = 0; i < ROUNDS; i++) {
		double of_copy = time_copy(l), of_capture = time_capture(l);
		ratios[i] = of_copy / of_capture;
		copy = of_copy < copy ? of_copy : copy;
		begins[i] = begin(l) * 1e6;
		await_done(l);
	}
	snprintf(name, sizeof(name), "host time of begin, %zu tensors, %.3g GiB (%s)", l->n, (double)l->bytes / 0x1p30,
		 l->mode);
	gpu_figure(name, median(begins), "us", 200, false, "no limit: the host's own time");
	snprintf(name, sizeof(name), "capture against one pinned copy (%s)", l->mode);
	gpu_figure(name, median(ratios), "of it", 0.97, true, "one copy: %.1f GB/s", (double)l->bytes / copy / 1e9);
	return copy;
}

/* Seconds between the end of the step's work and the end of the fence, on the stream. */
static double wait_at_fence(struct load *l)
{
	struct err err;
	struct cuda_rt *rt = l->g.rt;
	struct rt_event *worked;
	int code;
	gpu_check(&l->g, rt->event_create(rt, &worked), "creating an event");
	begin(l);
	start_step(l);
	gpu_check(&l->g, rt->event_record(rt, worked, l->g.stream), "recording an event");
	gpu_must(l->g.ops->plan_fence(l->plan, FENCE_ALL, l->g.stream, 0, NULL, &err), &err, "fence");
	while ((code = rt->event_query(rt, worked)) == RT_NOT_READY)
		;
	gpu_check(&l->g, code, "waiting for the step");
	double wait = gpu_wait(&l->g, l->g.stream);
	await_done(l);
	gpu_check(&l->g, rt->event_destroy(rt, worked), "destroying an event");
	return wait;
}

static void step_and_fence(struct load *l, double copy)
{
	double ratios[ROUNDS], waits[ROUNDS], step = 1e9;
	char name[80];
	size_step(l, copy);
	for (int i = 0; i < ROUNDS; i++) {
		double alone = time_step(l), began = gpu_seconds();
		begin(l);
		start_step(l);
		gpu_drain(&l->g, l->g.stream);
		ratios[i] = (gpu_seconds() - began) / alone;
		await_done(l);
		waits[i] = wait_at_fence(l) * 1e6;
		step = alone < step ? alone : step;
	}
	snprintf(name, sizeof(name), "step time while a capture runs, its digests included (%s)", l->mode);
	gpu_figure(name, median(ratios), "of a step alone", 1.02, false, "a step alone: %.0f ms", step * 1e3);
	snprintf(name, sizeof(name), "wait of the stream at the fence (%s)", l->mode);
	gpu_figure(name, median(waits), "us", 20, false, "asking the driver takes some us; the copy %.0f ms",
		   copy * 1e3);
}

int main(int argc, char **argv)
{
	struct load l = {0};
	make(&l, argc > 1 ? strtod(argv[1], NULL) : 20, argc > 2 ? strtoul(argv[2], NULL, 10) : 5000);
	double copy = begin_and_copy(&l);
	step_and_fence(&l, copy);
	l.g.ops->plan_free(l.plan);
	l.g.ops->arena_detach(l.g.dev, l.arena);
	l.g.ops->close(l.g.dev);
	return 0;
}
