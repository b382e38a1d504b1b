/* The line per second of --progress. */
#ifndef CKPT_TRAINER_PROGRESS_H
#define CKPT_TRAINER_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/saver.h"

struct progress {
	bool on;
	int64_t shown_ns;
	uint64_t shown_step;
};

enum { PROGRESS_SIZE = 256 };

/* Starts counting at this step: at the beginning and after each recovery. */
void progress_start(struct progress *progress, bool on, uint64_t step);

/* After a step: 1 and the line, without a line feed, when a second has passed since the last one, else 0. */
int progress_line(struct progress *progress, int64_t now_ns, uint64_t step, uint64_t steps, double loss,
		  uint64_t tokens_per_step, const struct saver *saver, char line[PROGRESS_SIZE]);

#endif
