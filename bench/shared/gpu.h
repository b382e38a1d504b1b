/* What the programs that need a GPU share: the real runtime behind its table, memory, and lines for scripts/gpu-check. */
#ifndef CKPT_BENCH_GPU_H
#define CKPT_BENCH_GPU_H

#include "cuda/device_cuda.h"

enum { GPU_NONE = 77 }; /* exit status without a GPU, with the reason as the last line */

struct gpu {
	struct cuda_rt *rt;
	struct rt_stream *stream; /* the "training" */
	struct device *dev;
	const struct device_ops *ops;
};

/* Ends the program where there is no GPU, or anything fails. */
struct gpu gpu_open(void);
void gpu_check(struct gpu *gpu, int code, const char *what);
void gpu_must(int rc, const struct err *err, const char *what);
void *gpu_memory(struct gpu *gpu, size_t bytes);
/* Page-aligned memory of the host, touched; pinned by the caller through the device's arena_attach. */
char *gpu_arena(size_t bytes);
void gpu_drain(struct gpu *gpu, struct rt_stream *stream);
/* Seconds until the event that is recorded on the stream now has come; asks without pause. */
double gpu_wait(struct gpu *gpu, struct rt_stream *stream);
double gpu_seconds(void);

/* One line of the table: what was measured, against which floor, and the limit of the same run in words. higher: more is better. */
void gpu_figure(const char *figure, double measured, const char *unit, double floor, bool higher, const char *limit,
		...) __attribute__((format(printf, 6, 7)));

#endif
