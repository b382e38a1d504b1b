#include "gpu_training.h"

#include "gpu_load.h"

#include <stdlib.h>

struct gpu_training gpu_training_make(struct gpu *gpu)
{
	struct gpu_training t = {.g = gpu, .nvalues = 1 << 28, .nstreams = 1};
	t.values = gpu_memory(gpu, t.nvalues * sizeof(float));
	gpu_check(gpu, gpu_work_blocks(&t.blocks), "asking how many blocks fill the GPU");
	for (unsigned i = 0; i < GPU_STREAMS_MAX; i++)
		gpu_check(gpu, gpu_work_stream((void **)(void *)&t.streams[i]), "creating a stream");
	return t;
}

void gpu_training_start(struct gpu_training *t)
{
	uint64_t each = t->nvalues / t->nstreams;
	for (unsigned i = 0; i < t->nstreams; i++)
		gpu_check(t->g, gpu_work(t->values + i * each, each, t->rounds, t->blocks, t->streams[i]), "working");
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

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double gpu_quantile(double *values, size_t n, double q)
{
	size_t rank = (size_t)(q * (double)n + 0.999999);
	qsort(values, n, sizeof(*values), ascending);
	return values[rank ? rank - 1 : 0];
}
