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

/* The number that a program was called with at place i, or the default; ends the program where it is none between least and most. */
double gpu_argument(int argc, char **argv, int i, const char *name, double otherwise, double least, double most);
/* The same in GiB, as whole MiB in bytes. */
size_t gpu_argument_gib(int argc, char **argv, int i, double otherwise);

/* Ends the program where there is no GPU, or anything fails. */
struct gpu gpu_open(void);
void gpu_check(struct gpu *gpu, int code, const char *what);
void gpu_must(int rc, const struct err *err, const char *what);
/* With the sentence. */
_Noreturn void gpu_end(const char *format, ...) __attribute__((format(printf, 1, 2)));
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
/* One line with a number for scripts/gpu-check to compare with others. */
void gpu_time(const char *name, double value);

#endif
