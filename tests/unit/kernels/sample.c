#include "sample.h"

#include <stdlib.h>

uint64_t sample_next(uint64_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 7;
	*rng ^= *rng << 17;
	return *rng;
}

uint64_t sample_below(uint64_t *rng, uint64_t n)
{
	return sample_next(rng) % n;
}

static void draw_loops(struct sample *s, uint64_t *rng)
{
	uint32_t ndim = s->span.ndim, order[SPAN_NDIM_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
	uint64_t step = s->span.row_bytes, turns = ndim > 4 ? 3 : 7;
	for (uint32_t d = ndim; d-- > 1;) {
		uint32_t other = (uint32_t)sample_below(rng, d + 1), t = order[d];
		order[d] = order[other];
		order[other] = t;
	}
	for (uint32_t i = 0; i < ndim; i++) {
		uint32_t d = sample_below(rng, 2) ? order[i] : ndim - 1 - i;
		if (s->span.count[d]) /* taken: the first that is free */
			for (d = 0; s->span.count[d]; d++)
				;
		step += sample_below(rng, 3) ? 0 : sample_below(rng, 9);
		s->span.count[d] = 1 + sample_below(rng, turns);
		s->span.stride[d] = (int64_t)step;
		s->image *= s->span.count[d];
		step *= s->span.count[d];
	}
	s->room_bytes = step;
}

struct sample sample_make(uint64_t *rng, uint32_t dims)
{
	static const uint64_t sizes[] = {1, 2, 4, 8, 16, 32, 64, 3, 40, 100};
	struct sample s = {.span.row_bytes = sizes[sample_below(rng, 10)],
			   .span.ndim = (uint32_t)sample_below(rng, dims + 1)};
	s.image = s.span.row_bytes;
	draw_loops(&s, rng);
	s.span.memory = s.room = malloc(s.room_bytes);
	for (size_t i = 0; i < s.room_bytes; i++)
		s.room[i] = (char)sample_next(rng);
	for (uint32_t d = 0; d < s.span.ndim; d++)
		if (sample_below(rng, 4) == 0) { /* from its last row backwards */
			s.span.memory = (char *)s.span.memory + s.span.stride[d] * (int64_t)(s.span.count[d] - 1);
			s.span.stride[d] = -s.span.stride[d];
		}
	if (sample_below(rng, 2)) {
		s.span.skip = sample_below(rng, s.image);
		s.span.take = sample_below(rng, s.image - s.span.skip + 1);
	}
	return s;
}
