/* Spans as runtime copies. */
#include "cuda/cuda_pinned.h"

#include "base/bytes.h"

/* A loop of rows that the runtime's pitched copy can take in one call. */
static bool pitched(const struct device *dev, const struct span_run *run)
{
	return run->rows > 1 && run->stride >= (int64_t)run->bytes && (uint64_t)run->stride <= dev->pitch_max;
}

int cuda_copy_row(struct device *dev, char *memory, char *packed, size_t n, enum cuda_direction direction,
		  struct rt_stream *stream)
{
	struct cuda_rt *rt = dev->rt;
	bool out = direction == CUDA_TO_ARENA;
	int code = 0;
	for (size_t k; !code && n; memory += k, packed += k, n -= k) {
		k = cuda_pinned_run(packed, n);
		code = rt->copy(rt, out ? packed : memory, out ? memory : packed, k, stream);
	}
	return code;
}

static int copy_loop(struct device *dev, const struct span_run *run, char *memory, char *packed,
		     enum cuda_direction direction, struct rt_stream *stream)
{
	struct cuda_rt *rt = dev->rt;
	bool out = direction == CUDA_TO_ARENA;
	size_t n = run->bytes;
	if (pitched(dev, run) && cuda_pinned_run(packed, n * run->rows) == n * run->rows) {
		size_t pitch = (size_t)run->stride;
		return out ? rt->copy2d(rt, packed, n, memory, pitch, n, run->rows, stream)
			   : rt->copy2d(rt, memory, pitch, packed, n, n, run->rows, stream);
	}
	int code = 0;
	for (uint64_t i = 0; !code && i < run->rows; i++, memory += run->stride, packed += n)
		code = cuda_copy_row(dev, memory, packed, n, direction, stream);
	return code;
}

int cuda_copy_span(struct device *dev, const struct span *span, char *packed, uint64_t at, uint64_t len,
		   enum cuda_direction direction, struct rt_stream *stream, struct err *err)
{
	struct span_walk walk;
	struct span_run run;
	span_walk_init(&walk, span, at, len);
	while (span_walk_next(&walk, &run)) {
		char *memory = run.memory;
		for (uint64_t i = 0; i < run.loops; i++, memory += run.loop_stride, packed += run.rows * run.bytes) {
			int code = copy_loop(dev, &run, memory, packed, direction, stream);
			if (code)
				return cuda_check(dev, code, "starting a copy", err);
		}
	}
	return 0;
}

uint64_t cuda_copy_calls(const struct device *dev, const struct span *span, uint64_t most)
{
	struct span_walk walk;
	struct span_run run;
	uint64_t calls = 0;
	span_walk_init(&walk, span, 0, span_bytes(span));
	while (calls < most && span_walk_next(&walk, &run))
		calls += run.loops * (pitched(dev, &run) ? 1 : run.rows);
	return min_u64(calls, most);
}
