/* What stands in the place of a GPU below bench/gpu_*.c where they are built as emulated_gpu_*: the fake of the CUDA runtime (cuda_fake.h), the
 * emulator of kernels (tests/cuda), whose launches take their turn on the fake's streams, and a device of few multiprocessors. It tells on
 * stderr, in lines that begin with "gpu:", what it is asked for, so that a test sees what a bench has done, and when:
 *
 *	gpu: blocks of T threads: B                it was asked how many such blocks have a place on a multiprocessor
 *	gpu: work on S: B blocks of T threads      a kernel was launched on a stream; S counts streams of users from 0; "ours": another
 *	gpu: capture on S                          digests were put on a stream: a capture begins
 *
 * From the environment:
 *	EMULATED_PLACES=P,B    the device (3 multiprocessors of 2 blocks)
 *	EMULATED_KERNELS=1     the kernels of the device layer run in the emulator, too; else their references do
 *	EMULATED_FAIL=call:N   the N-th call of the runtime, from 1, fails, and all that come later
 *	EMULATED_FAIL=op:N     the GPU dies at its N-th operation
 *	EMULATED_FAIL=short    no copy moves its last 8 bytes
 *	EMULATED_FAIL=digest   no digest is of its leaf alone
 *	EMULATED_FAIL=places   the device has no place for any block */
#include "cuda_fake.h"

#include "base/clock.h"
#include "emulator.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USERS_MAX = 64, SHORT = 8 };

static struct cuda_fake *fake;
static struct cuda_rt table; /* the fake's, before this file put its own calls there */
static struct rt_stream *users[USERS_MAX];
static int nusers, places[2] = {3, 2};
static struct emulated_device device;
static const char *failure = "";

static const char *name_of(const void *stream, char name[16])
{
	snprintf(name, 16, "ours");
	for (int i = 0; i < nusers; i++)
		if (users[i] == stream)
			snprintf(name, 16, "%d", i);
	return name;
}

/* ---- what kernels of the bench ask for ---- */

static int places_of(int threads, int *blocks)
{
	*blocks = places[1];
	fprintf(stderr, "gpu: blocks of %d threads: %d\n", threads, *blocks);
	return 0;
}

static int new_stream(void **stream)
{
	if (nusers == USERS_MAX)
		return FAKE_CALL_FAILS;
	*stream = users[nusers++] = cuda_fake_stream(fake);
	return 0;
}

static int put(void *stream, unsigned blocks, unsigned threads, void (*run)(void *arg), void *arg)
{
	char name[16];
	/* A launch tells what has gone wrong before it. */
	int code = fake ? cuda_fake_rt(fake)->stream_query(cuda_fake_rt(fake), stream) : 0;
	if (code && code != RT_NOT_READY)
		return code;
	fprintf(stderr, "gpu: work on %s: %u blocks of %u threads\n", name_of(stream, name), blocks, threads);
	cuda_fake_call(fake, stream, run, arg);
	return 0;
}

/* ---- what the device layer is told ---- */

static int digest(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *spans, uint64_t first,
		  uint64_t units, uint64_t *leaves, uint8_t *changed)
{
	char name[16];
	fprintf(stderr, "gpu: capture on %s\n", name_of(stream, name));
	if (!strcmp(failure, "digest") && units > 1)
		units--;
	return table.digest(rt, stream, spans, first, units, leaves, changed);
}

static int copy(struct cuda_rt *rt, void *dst, const void *src, size_t n, struct rt_stream *stream)
{
	return table.copy(rt, dst, src, !strcmp(failure, "short") && n > SHORT ? n - SHORT : n, stream);
}

static int copy_batch(struct cuda_rt *rt, void **dst, const void **src, const size_t *bytes, size_t n,
		      struct rt_stream *stream)
{
	int code = 0;
	for (size_t i = 0; !code && i < n; i++)
		code = copy(rt, dst[i], src[i], bytes[i], stream);
	return code;
}

static void make(void)
{
	const char *at = getenv("EMULATED_PLACES");
	failure = getenv("EMULATED_FAIL") ? getenv("EMULATED_FAIL") : "";
	if (at && sscanf(at, "%d,%d", &places[0], &places[1]) != 2)
		abort();
	if (!strcmp(failure, "places"))
		places[1] = 0;
	fake = cuda_fake_new(1);
	if (getenv("EMULATED_KERNELS"))
		cuda_fake_emulate(fake);
	device = (struct emulated_device){
		.processors = places[0], .places = places_of, .stream = new_stream, .put = put};
	emulator_device(&device);
	struct cuda_rt *rt = cuda_fake_rt(fake);
	table = *rt;
	rt->digest = digest;
	rt->copy = copy;
	rt->copy_batch = copy_batch;
	if (!strncmp(failure, "call:", 5))
		cuda_fake_fail_call(fake, strtoull(failure + 5, NULL, 10), true);
	if (!strncmp(failure, "op:", 3))
		cuda_fake_fail_op(fake, strtoull(failure + 3, NULL, 10));
}

/* One GPU, whoever opens it: the bench and the library below it. */
int cuda_rt_real(struct cuda_rt **out, struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	(void)err;
	pthread_once(&once, make);
	*out = cuda_fake_rt(fake);
	return 0;
}
