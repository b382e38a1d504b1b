/* The table of runtime calls over the real CUDA runtime, which is linked statically. The driver library is not linked
 * (cuda_rt_driver.c). */
#include "cuda_real.h"

#include "base/clock.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#endif

static cudaStream_t stream_of(struct rt_stream *stream)
{
	return (cudaStream_t)stream;
}

int cuda_real_errno(struct cuda_rt *rt, int code)
{
	(void)rt;
	switch (code) {
	case cudaErrorMemoryAllocation:
		return -ENOMEM;
	case cudaErrorInvalidValue:
	case cudaErrorInvalidResourceHandle:
	case cudaErrorInvalidPitchValue:
		return -EINVAL;
	case cudaErrorNoDevice:
	case cudaErrorInvalidDevice:
	case cudaErrorInsufficientDriver:
	case cudaErrorInitializationError:
	case cudaErrorSystemDriverMismatch:
	case cudaErrorCompatNotSupportedOnDevice:
	case cudaErrorDevicesUnavailable:
	case cudaErrorStubLibrary:
	case cudaErrorNoKernelImageForDevice:
	case cudaErrorInvalidDeviceFunction:
	case cudaErrorUnsupportedPtxVersion:
		return -ENODEV;
	case cudaErrorNotSupported:
	case cudaErrorStreamCaptureUnsupported:
	case cudaErrorStreamCaptureInvalidated:
	case cudaErrorSymbolNotFound:
		return -EOPNOTSUPP;
	case cudaErrorNotPermitted:
		return -EPERM;
	case cudaErrorHostMemoryAlreadyRegistered:
		return -EEXIST;
	default:
		return -EIO;
	}
}

const char *cuda_real_text(struct cuda_rt *rt, int code)
{
	(void)rt;
	return cudaGetErrorString((cudaError_t)code);
}

/* Errors that do not stay are also remembered by the runtime for the next cudaGetLastError of the application, to whom
 * they mean nothing. */
int cuda_real_result(int code)
{
	if (code != cudaSuccess)
		(void)cudaGetLastError();
	return code == cudaErrorNotReady ? RT_NOT_READY : code;
}

static int result(cudaError_t code)
{
	return cuda_real_result((int)code);
}

static int real_count(struct cuda_rt *rt, int *devices)
{
	(void)rt;
	int n = 0; /* left untouched on failure */
	int code = result(cudaGetDeviceCount(&n));
	*devices = n;
	return code;
}

_Static_assert((int)RT_RELAXED == (int)cudaStreamCaptureModeRelaxed, "the runtime's number");

static int real_interaction(struct cuda_rt *rt, int *mode)
{
	(void)rt;
	enum cudaStreamCaptureMode swapped = (enum cudaStreamCaptureMode) * mode;
	int code = result(cudaThreadExchangeStreamCaptureMode(&swapped));
	*mode = (int)swapped;
	return code;
}

static int real_pitch_max(struct cuda_rt *rt, size_t *bytes)
{
	(void)rt;
	int device, most = 0;
	cudaError_t code = cudaGetDevice(&device);
	if (code == cudaSuccess)
		code = cudaDeviceGetAttribute(&most, cudaDevAttrMaxPitch, device);
	*bytes = (size_t)most;
	return result(code);
}

static int real_host_register(struct cuda_rt *rt, void *base, size_t size)
{
	(void)rt;
	int device, same_address = 0;
	cudaError_t code = cudaGetDevice(&device);
	if (code == cudaSuccess)
		code = cudaDeviceGetAttribute(&same_address, cudaDevAttrCanUseHostPointerForRegisteredMem, device);
	if (code == cudaSuccess && !same_address)
		return cudaErrorNotSupported;
	if (code == cudaSuccess)
		code = cudaHostRegister(base, size, cudaHostRegisterPortable | cudaHostRegisterMapped);
	return result(code);
}

static int real_host_unregister(struct cuda_rt *rt, void *base)
{
	(void)rt;
	return result(cudaHostUnregister(base));
}

static int real_stream_create(struct cuda_rt *rt, struct rt_stream **stream)
{
	(void)rt;
	int least = 0, greatest = 0;
	cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
	if (code == cudaSuccess)
		code = cudaStreamCreateWithPriority((cudaStream_t *)stream, cudaStreamNonBlocking, greatest);
	return result(code);
}

static int real_stream_destroy(struct cuda_rt *rt, struct rt_stream *stream)
{
	(void)rt;
	return result(cudaStreamDestroy(stream_of(stream)));
}

static int real_stream_query(struct cuda_rt *rt, struct rt_stream *stream)
{
	(void)rt;
	return result(cudaStreamQuery(stream_of(stream)));
}

static int real_stream_device(struct cuda_rt *rt, struct rt_stream *stream, int *ordinal)
{
	(void)rt;
	return result(cudaStreamGetDevice(stream_of(stream), ordinal));
}

static int real_stream_records(struct cuda_rt *rt, struct rt_stream *stream, bool *records)
{
	(void)rt;
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	cudaError_t code = cudaStreamIsCapturing(stream_of(stream), &status);
	*records = code == cudaErrorStreamCaptureImplicit || status != cudaStreamCaptureStatusNone;
	return result(code == cudaErrorStreamCaptureImplicit ? cudaSuccess : code);
}

static int real_stream_wait(struct cuda_rt *rt, struct rt_stream *stream, struct rt_event *event)
{
	(void)rt;
	return result(cudaStreamWaitEvent(stream_of(stream), (cudaEvent_t)event, 0));
}

static int real_event_create(struct cuda_rt *rt, struct rt_event **event)
{
	(void)rt;
	return result(cudaEventCreateWithFlags((cudaEvent_t *)event, cudaEventDisableTiming));
}

static int real_event_destroy(struct cuda_rt *rt, struct rt_event *event)
{
	(void)rt;
	return result(cudaEventDestroy((cudaEvent_t)event));
}

static int real_event_record(struct cuda_rt *rt, struct rt_event *event, struct rt_stream *stream)
{
	(void)rt;
	return result(cudaEventRecord((cudaEvent_t)event, stream_of(stream)));
}

static int real_event_query(struct cuda_rt *rt, struct rt_event *event)
{
	(void)rt;
	return result(cudaEventQuery((cudaEvent_t)event));
}

static int real_copy(struct cuda_rt *rt, void *dst, const void *src, size_t n, struct rt_stream *stream)
{
	(void)rt;
	return result(cudaMemcpyAsync(dst, src, n, cudaMemcpyDefault, stream_of(stream)));
}

static int real_copy2d(struct cuda_rt *rt, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
		       size_t row_bytes, size_t rows, struct rt_stream *stream)
{
	(void)rt;
	return result(cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, row_bytes, rows, cudaMemcpyDefault,
					stream_of(stream)));
}

/* Since CUDA 12.8; in 13 it no longer says which of them failed, and takes what it only reads as const. */
#if CUDART_VERSION >= 12080
static int real_copy_batch(struct cuda_rt *rt, void **dst, const void **src, const size_t *bytes, size_t n,
			   struct rt_stream *stream)
{
	(void)rt;
	struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
	size_t all = 0;
#if CUDART_VERSION >= 13000
	return result(cudaMemcpyBatchAsync(dst, src, bytes, n, &attributes, &all, 1, stream_of(stream)));
#else
	size_t failed;
	return result(cudaMemcpyBatchAsync(dst, (void **)src, (size_t *)bytes, n, &attributes, &all, 1, &failed,
					   stream_of(stream)));
#endif
}
#endif

#ifdef HAVE_NVTX
static void real_range_begin(struct cuda_rt *rt, const char *name)
{
	(void)rt;
	nvtxRangePushA(name);
}

static void real_range_end(struct cuda_rt *rt)
{
	(void)rt;
	nvtxRangePop();
}
#endif

/* ---- kernels ---- */

/* Digests, and what gathers within the device, run at the speed of its memory, alone on the stream: every multiprocessor works. What packs
 * over the bus needs few of them to fill it, and leaves the rest to the training. */
enum { BLOCKS_EACH = 4, PACK_BLOCKS = 32 };

static int all_blocks(unsigned *blocks)
{
	int device, processors = 0;
	cudaError_t code = cudaGetDevice(&device);
	if (code == cudaSuccess)
		code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
	*blocks = (unsigned)processors * BLOCKS_EACH;
	return result(code);
}

static int real_digest(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		       uint64_t units, uint64_t *leaves, uint8_t *changed)
{
	(void)rt;
	unsigned blocks;
	int code = all_blocks(&blocks);
	return code ? code : result((cudaError_t)gpu_digest(table, first, units, leaves, changed, blocks, stream));
}

static int real_pack(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		     uint64_t units, const uint8_t *changed, void *base, bool wide)
{
	(void)rt;
	unsigned blocks = PACK_BLOCKS;
	int code = wide ? all_blocks(&blocks) : 0;
	return code ? code : result((cudaError_t)gpu_pack(table, first, units, changed, base, blocks, stream));
}

static int real_unpack(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		       uint64_t units, const void *base)
{
	(void)rt;
	return result((cudaError_t)gpu_unpack(table, first, units, base, PACK_BLOCKS, stream));
}

static int real_tell(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint64_t value, unsigned width)
{
	(void)rt;
	return result((cudaError_t)gpu_tell(at, value, width, stream));
}

static int real_load(struct cuda_rt *rt)
{
	(void)rt;
	int code = gpu_digest_load();
	if (!code)
		code = gpu_pack_load();
	if (!code)
		code = gpu_tell_load();
	return result((cudaError_t)code);
}

static int real_alloc(struct cuda_rt *rt, void **out, size_t size, struct rt_stream *stream)
{
	(void)rt;
	return result(cudaMallocAsync(out, size, stream_of(stream)));
}

static int real_free(struct cuda_rt *rt, void *memory, struct rt_stream *stream)
{
	(void)rt;
	return result(cudaFreeAsync(memory, stream_of(stream)));
}

static void real_release(struct cuda_rt *rt)
{
	free(rt);
}

static const struct cuda_rt table = {
	.patience = 30 * CLOCK_NS_PER_S,
	.gather_most = 256 << 20,
	/* From 512 GiB on drivers refuse it (580): the list of its pages is too long for them. */
	.register_max = 256ull << 30,
	.release = real_release,
	.errno_of = cuda_real_errno,
	.text_of = cuda_real_text,
	.count = real_count,
	.context_retain = cuda_real_context_retain,
	.context_release = cuda_real_context_release,
	.current = cuda_real_current,
	.make_current = cuda_real_make_current,
	.interaction = real_interaction,
	.load = real_load,
	.traits = cuda_real_traits,
	.pitch_max = real_pitch_max,
	.host_register = real_host_register,
	.host_unregister = real_host_unregister,
	.stream_create = real_stream_create,
	.stream_destroy = real_stream_destroy,
	.stream_query = real_stream_query,
	.stream_device = real_stream_device,
	.stream_context = cuda_real_stream_context,
	.stream_records = real_stream_records,
	.stream_wait = real_stream_wait,
	.event_create = real_event_create,
	.event_destroy = real_event_destroy,
	.event_record = real_event_record,
	.event_query = real_event_query,
	.copy = real_copy,
	.copy2d = real_copy2d,
	.write64 = cuda_real_write64,
	.write32 = cuda_real_write32,
	.tell = real_tell,
	.alloc = real_alloc,
	.free = real_free,
	.allocation = cuda_real_allocation,
	.digest = real_digest,
	.pack = real_pack,
	.unpack = real_unpack,
#if CUDART_VERSION >= 12080
	.copy_batch = real_copy_batch,
#endif
#ifdef HAVE_NVTX
	.range_begin = real_range_begin,
	.range_end = real_range_end,
#endif
};

int cuda_rt_real(struct cuda_rt **out, struct err *err)
{
	int devices = 0, code = real_count(NULL, &devices);
	*out = NULL;
	if (code)
		return err_set(err, cuda_real_errno(NULL, code), "no GPU can be used: %s", cuda_real_text(NULL, code));
	struct real *real = malloc(sizeof(*real));
	if (!real)
		return err_set(err, -ENOMEM, "out of memory for the CUDA runtime's table");
	*real = (struct real){.rt = table};
	int rc = cuda_real_driver(real, err);
	if (rc < 0) {
		free(real);
		return rc;
	}
	*out = &real->rt;
	return 0;
}
