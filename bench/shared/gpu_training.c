#include "gpu_training.h"

#include "gpu_load.h"

struct gpu_training gpu_training_make(struct gpu *gpu, uint64_t values)
{
	struct gpu_training t = {.g = gpu, .nvalues = values, .nstreams = 1};
	t.values = gpu_memory(gpu, t.nvalues * sizeof(float));
	gpu_check(gpu, gpu_work_blocks(&t.blocks), "asking how many blocks fill the GPU");
	if (!t.blocks)
		gpu_end("this GPU has no place for a block of the work");
	for (unsigned i = 0; i < GPU_STREAMS_MAX; i++) {
		gpu_check(gpu, gpu_work_stream((void **)(void *)&t.streams[i]), "creating a stream");
		gpu_check(gpu, gpu->rt->event_create(gpu->rt, &t.worked[i]), "creating an event");
	}
	return t;
}

void gpu_training_start(struct gpu_training *t)
{
	uint64_t each = t->nvalues / t->nstreams;
	for (unsigned i = 0; i < t->nstreams; i++)
		gpu_check(t->g, gpu_work(t->values + i * each, each, t->rounds, t->blocks, t->streams[i]), "working");
}

void gpu_training_join(struct gpu_training *t)
{
	struct cuda_rt *rt = t->g->rt;
	for (unsigned i = 1; i < t->nstreams; i++) {
		gpu_check(t->g, rt->event_record(rt, t->worked[i], t->streams[i]), "recording an event");
		gpu_check(t->g, rt->stream_wait(rt, t->streams[0], t->worked[i]), "waiting for an event");
	}
}

void gpu_training_drain(struct gpu_training *t)
{
	for (unsigned i = 0; i < t->nstreams; i++)
		gpu_drain(t->g, t->streams[i]);
}

double gpu_training_step(struct gpu_training *t)
{
	double began = gpu_seconds();
	gpu_training_start(t);
	gpu_training_drain(t);
	return gpu_seconds() - began;
}

void gpu_training_spread(struct gpu_training *t, unsigned nstreams, double seconds)
{
	t->nstreams = nstreams;
	t->rounds = 4;
	gpu_training_step(t);
	t->rounds = (unsigned)(seconds / (gpu_training_step(t) / t->rounds)) + 1;
}
