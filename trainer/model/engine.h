/*
 * Where a rank computes, and what it computes there: the host, or a GPU. A platform is opened once in a process. An
 * engine holds the model, its gradients and the rank's shard of the optimiser for one place in the world.
 *
 * Functions return 0 or -errno; -ENOTRECOVERABLE: the device is lost, device->why says how.
 */
#ifndef CKPT_TRAINER_ENGINE_H
#define CKPT_TRAINER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "collective/collective.h"
#include "common/compress.h"
#include "common/shard.h"
#include "common/tensor.h"
#include "model/device.h"
#include "model/optimizer.h"

struct engine_setup {
	struct model_config config;
	struct optimizer_config optimizer;
	size_t max_rows;
	int rank, world;
	bool recompute; /* less memory for activations, more work; on the host without effect */
};

struct engine {
	const struct engine_ops *ops;
	struct device *device; /* borrowed */
	int ordinal;           /* where the vectors below live: CKPT_HOST, or the device's number */
	void *stream;          /* on which they are used; NULL on the host */
	/* the rest is owned by the engine, at one address */
	const struct tensor *table;
	size_t tensors, size; /* elements of the flat vectors */
	float *params, *grads;
	float *moment[2]; /* of the shard, by enum shard_state */
	struct shard_range range;
	const struct shard_segment *segments;
	size_t segment_count;
};

struct engine_ops {
	void (*free)(struct engine *engine);
	/* Parameters from the seed, moments zero. */
	int (*init)(struct engine *engine, uint64_t seed);
	/* As model_backward(), but that the work may be under way when it returns: device_wait(), then loss. */
	int (*backward)(struct engine *engine, size_t rows, const uint8_t *input, const uint8_t *target, float scale);
	double (*loss)(const struct engine *engine);
	/* As optimizer_step(); as above. */
	int (*update)(struct engine *engine, uint64_t number, float rate);
	/* Copies n elements from the engine's memory, or to it; waits. */
	int (*get)(struct engine *engine, float *to, const float *from, size_t n);
	int (*put)(struct engine *engine, float *to, const float *from, size_t n);
	/* Zeroed floats in the engine's memory, fit to be captured; NULL: there is no room. drop: NULL is allowed. */
	float *(*room)(struct engine *engine, size_t n);
	void (*drop)(struct engine *engine, float *room);
	/* As memset() to zero, compress_pack() and compress_add(), behind what is under way. */
	int (*zero)(struct engine *engine, float *at, size_t n);
	int (*pack)(struct engine *engine, enum compress_kind kind, const float *from, const float *residual,
		    size_t count, float *to, float *left);
	int (*add)(struct engine *engine, enum compress_kind kind, const float *packed, struct shard_range range,
		   float *sum);
};

struct platform {
	const char *name;
	struct device device;
	struct collective_way way;
	int (*create)(struct platform *platform, const struct engine_setup *setup, struct engine **engine);
	void (*close)(struct platform *platform); /* also frees it */
};

/* The host's; NULL: no memory. */
struct platform *platform_host(void);

enum { PLATFORM_WHY_SIZE = 256 };

/* Opens that of a GPU. -ENODEV, -ENOENT or -ENOSYS and a sentence where there is none, or a library is missing. */
typedef int platform_open_fn(struct platform **platform, char why[PLATFORM_WHY_SIZE]);
/* cuda/platform_cuda.c: where the program was built with CUDA. The device is the one of the rank on its node
 * (LOCAL_RANK), counted round; the libraries are those of the system. */
platform_open_fn platform_cuda;

#endif
