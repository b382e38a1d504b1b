/* Stands for the training: work on several streams that leaves no place on the GPU free, for as long as a step is to take. */
#ifndef CKPT_BENCH_GPU_TRAINING_H
#define CKPT_BENCH_GPU_TRAINING_H

#include "gpu.h"

enum { GPU_STREAMS_MAX = 16, GPU_VALUES = 1 << 30 /* as a rule: what each stream goes over exceeds any cache */ };

struct gpu_training {
	struct gpu *g;
	struct rt_stream *streams[GPU_STREAMS_MAX]; /* of ordinary priority; the first is that of the saves */
	unsigned nstreams;
	unsigned blocks; /* as many as have a place on the GPU at a time; each stream asks for as many */
	unsigned rounds; /* of work in a step */
	struct rt_event *worked[GPU_STREAMS_MAX];
	float *values;
	uint64_t nvalues;
};

/* values: of 4 bytes, that the work goes over. */
struct gpu_training gpu_training_make(struct gpu *gpu, uint64_t values);
/* From now on on so many streams. Sizes the step to take so long. */
void gpu_training_spread(struct gpu_training *t, unsigned nstreams, double seconds);

void gpu_training_start(struct gpu_training *t);
/* The first stream waits for what is on the others, as an optimiser's step does. */
void gpu_training_join(struct gpu_training *t);
/* Waits for all streams. */
void gpu_training_drain(struct gpu_training *t);
/* Both. Returns the seconds that it took. */
double gpu_training_step(struct gpu_training *t);

#endif
