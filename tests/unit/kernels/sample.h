/* Spans of every shape over memory of their own, drawn from a generator. */
#ifndef CKPT_TESTS_SAMPLE_H
#define CKPT_TESTS_SAMPLE_H

#include "span/span.h"

uint64_t sample_next(uint64_t *rng);
uint64_t sample_below(uint64_t *rng, uint64_t n);

/* A span over distinct bytes of `room`, which holds no byte more: dimensions in any order of stride, gaps between rows, some strides negative.
 * */
struct sample {
	struct span span;
	char *room; /* malloc */
	size_t room_bytes;
	uint64_t image; /* bytes without the part */
};

/* Of at most `dims` dimensions; few turns of each loop where there are many. */
struct sample sample_make(uint64_t *rng, uint32_t dims);

#endif
