#include "gpu.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The programs as tests build them, over a fake of the runtime and an emulator of kernels: nothing that they print is to be taken for a
 * figure, not even by scripts/gpu-check. */
#ifdef GPU_EMULATED
static const char emulated[] = "emulated: this is no GPU, and no time below says anything about one\n";
static const char figure_row[] = "emulated, no figure", time_row[] = "emulated, no time", yes[] = "no GPU",
		  no[] = "no GPU";
#else
static const char emulated[] = "";
static const char figure_row[] = "figure", time_row[] = "times", yes[] = "yes", no[] = "NO";
#endif

void gpu_end(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

double gpu_argument(int argc, char **argv, int i, const char *name, double otherwise, double least, double most)
{
	if (i >= argc)
		return otherwise;
	char *end;
	double value = strtod(argv[i], &end);
	if (end != argv[i] && !*end && value >= least && value <= most)
		return value;
	fprintf(stderr, "%s: %s is a number from %g to %g, not \"%s\"\n", argv[0], name, least, most, argv[i]);
	exit(2);
}

size_t gpu_argument_gib(int argc, char **argv, int i, double otherwise)
{
	return (size_t)(gpu_argument(argc, argv, i, "GIB", otherwise, 1.0 / 1024, 4096) * 1024) << 20;
}

void gpu_must(int rc, const struct err *err, const char *what)
{
	if (rc)
		gpu_end("%s: %s", what, err->text);
}

void gpu_check(struct gpu *gpu, int code, const char *what)
{
	if (code)
		gpu_end("%s: %s", what, gpu->rt->text_of(gpu->rt, code));
}

struct gpu gpu_open(void)
{
	struct gpu gpu = {.ops = device_cuda()};
	struct err err = {"this build was made without the CUDA toolkit"};
	fputs(emulated, stdout);
	fflush(stdout);
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
		if (gpu_seconds() - began > 60)
			gpu_end("the GPU does not come to an end");
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
	printf("%s\t%s\t%.4g %s\t%s %.4g\t%s\t", figure_row, figure, measured, unit, higher ? "at least" : "at most",
	       floor, reached ? yes : no);
	va_start(args, limit);
	vprintf(limit, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

void gpu_time(const char *name, double value)
{
	printf("%s\t%s\t%.6f\n", time_row, name, value);
	fflush(stdout);
}
