#include "gpu.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

void gpu_must(int rc, const struct err *err, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, err->text);
	exit(1);
}

void gpu_check(struct gpu *gpu, int code, const char *what)
{
	if (code == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, gpu->rt->text_of(gpu->rt, code));
	exit(1);
}

struct gpu gpu_open(void)
{
	struct gpu gpu = {.ops = device_cuda()};
	struct err err = {"this build was made without the CUDA toolkit"};
	if (!gpu.ops || cuda_rt_real(&gpu.rt, &err) < 0) {
		printf("no GPU: not measured (%s)\n", err.text);
		exit(GPU_NONE);
	}
	gpu_check(&gpu, gpu.rt->stream_create(gpu.rt, &gpu.stream), "creating a stream");
	gpu_must(gpu.ops->open(0, &gpu.dev, &err), &err, "opening GPU 0");
	return gpu;
}

void *gpu_memory(struct gpu *gpu, size_t bytes)
{
	void *memory = NULL;
	gpu_check(gpu, gpu->rt->alloc(gpu->rt, &memory, bytes, gpu->stream), "taking device memory");
	gpu_drain(gpu, gpu->stream);
	return memory;
}

char *gpu_arena(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p != MAP_FAILED)
		return p;
	perror("mmap");
	exit(1);
}

double gpu_seconds(void)
{
	return (double)clock_now() / (double)CLOCK_NS_PER_S;
}

void gpu_drain(struct gpu *gpu, struct rt_stream *stream)
{
	double began = gpu_seconds();
	int code;
	while ((code = gpu->rt->stream_query(gpu->rt, stream)) == RT_NOT_READY)
		if (gpu_seconds() - began > 60) {
			fprintf(stderr, "the GPU does not come to an end\n");
			exit(1);
		}
	gpu_check(gpu, code, "waiting for a stream");
}

double gpu_wait(struct gpu *gpu, struct rt_stream *stream)
{
	double began = gpu_seconds();
	gpu_drain(gpu, stream);
	return gpu_seconds() - began;
}

void gpu_figure(const char *figure, double measured, const char *unit, double floor, bool higher, const char *limit,
		...)
{
	va_list args;
	bool reached = higher ? measured >= floor : measured <= floor;
	printf("figure\t%s\t%.4g %s\t%s %.4g\t%s\t", figure, measured, unit, higher ? "at least" : "at most", floor,
	       reached ? "yes" : "NO");
	va_start(args, limit);
	vprintf(limit, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}
