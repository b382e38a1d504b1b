/* The command line of ckpt-train. */
#ifndef CKPT_TRAINER_OPTIONS_H
#define CKPT_TRAINER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/compress.h"
#include "common/tensor.h"
#include "model/engine.h"

enum train_device { DEVICE_AUTO = 0, DEVICE_HOST, DEVICE_CUDA };

struct train_options {
	const char *const *files; /* owned by argv */
	size_t file_count;        /* 0: the default text */
	uint64_t steps;
	size_t batch; /* rows of all ranks together */
	struct model_config model;
	double rate;
	uint64_t warmup; /* steps in which the rate rises to its full value */
	uint64_t seed;
	uint64_t memory_every, storage_every; /* steps; 0: never */
	int64_t timeout_ms;                   /* of one collective */
	int64_t patience_ms;                  /* without a completed step: then the rank gives up */
	uint64_t healthy_after;               /* good steps that make a checkpoint healthy */
	uint64_t stopped_status;              /* of a process that was asked to stop before the last step */
	uint64_t pace_ms;                     /* least time of a rank's own part of a step */
	enum train_device device;
	platform_open_fn *open_gpu; /* of this build; NULL: it has none. No option */
	bool recompute;
	enum compress_kind compress; /* of gradients */
	const char *faults;          /* to play, see faults.h; NULL: none; from the environment only */
	const char *address;         /* literal on which the ring listens */
	const char *dump, *report;   /* files, or NULL */
	bool save_auto;              /* the daemon says which steps are saved, if its interval is automatic */
	bool strict, no_vote, progress, help;
	int rank, world; /* world 0: from the environment; there is no option for these two */
};

enum { OPTIONS_ERROR_SIZE = 256 };

void options_default(struct train_options *options);

/* Reads argv, whose order it may change. 0, or -EINVAL with a sentence in `error`. After --help the rest is not checked. */
int options_parse(struct train_options *options, int argc, char **argv, char error[OPTIONS_ERROR_SIZE]);

void options_help(FILE *to);

#endif
