/* The table of runtime calls over the real CUDA runtime, which is linked statically. The driver library is not linked:
 * its calls are taken through the runtime, so that one binary starts on machines without a driver. */
#include "cuda_rt.h"

#include "base/clock.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#endif

/* The first driver interface in which stream memory operations need no opt-in by the administrator. */
enum { WRITE_VALUE_VERSION = 12000, STREAM_DEVICE_VERSION = 12080, CONTEXT_VERSION = 12000 };

typedef CUresult write64_fn(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags);
typedef CUresult write32_fn(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);

/* The driver's own: cudaGetDevice and cudaSetDevice would make a context for a thread that has none. */
typedef CUresult context_retain_fn(CUcontext *context, CUdevice device);
typedef CUresult context_release_fn(CUdevice device);
typedef CUresult current_fn(CUcontext *context);
typedef CUresult make_current_fn(CUcontext context);
typedef CUresult stream_context_fn(CUstream stream, CUcontext *context);

struct real {
	struct cuda_rt rt; /* first */
	write64_fn *write64;
	write32_fn *write32;
	context_retain_fn *context_retain;
	context_release_fn *context_release;
	current_fn *current;
	make_current_fn *make_current;
	stream_context_fn *stream_context;
};

static const struct real *real_of(struct cuda_rt *rt)
{
	return (const struct real *)rt;
}

static cudaStream_t stream_of(struct rt_stream *stream)
{
	return (cudaStream_t)stream;
}

static int errno_of(struct cuda_rt *rt, int code)
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

static const char *text_of(struct cuda_rt *rt, int code)
{
	(void)rt;
	return cudaGetErrorString((cudaError_t)code);
}

/* Errors that do not stay are also remembered by the runtime for the next cudaGetLastError of the application, to whom
 * they mean nothing. */
static int result(cudaError_t code)
{
	if (code != cudaSuccess)
		(void)cudaGetLastError();
	return code == cudaErrorNotReady ? RT_NOT_READY : (int)code;
}

static int real_count(struct cuda_rt *rt, int *devices)
{
	(void)rt;
	int n = 0; /* left untouched on failure */
	int code = result(cudaGetDeviceCount(&n));
	*devices = n;
	return code;
}

/* CUresult has cudaError's numbers. An ordinal is a CUdevice. */
static int real_context_retain(struct cuda_rt *rt, int ordinal, struct rt_context **context)
{
	return (int)real_of(rt)->context_retain((CUcontext *)context, ordinal);
}

static int real_context_release(struct cuda_rt *rt, int ordinal)
{
	return (int)real_of(rt)->context_release(ordinal);
}

static int real_current(struct cuda_rt *rt, struct rt_context **context)
{
	return (int)real_of(rt)->current((CUcontext *)context);
}

static int real_make_current(struct cuda_rt *rt, struct rt_context *context)
{
	return (int)real_of(rt)->make_current((CUcontext)context);
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
	return result(cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking));
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

static int real_stream_context(struct cuda_rt *rt, struct rt_stream *stream, struct rt_context **context)
{
	return (int)real_of(rt)->stream_context((CUstream)stream, (CUcontext *)context);
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

/* The default flags: earlier operations of the stream are visible before the value is. */
static int real_write64(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint64_t value)
{
	return (int)real_of(rt)->write64((CUstream)stream, (CUdeviceptr)(uintptr_t)at, value,
					 CU_STREAM_WRITE_VALUE_DEFAULT);
}

static int real_write32(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint32_t value)
{
	return (int)real_of(rt)->write32((CUstream)stream, (CUdeviceptr)(uintptr_t)at, value,
					 CU_STREAM_WRITE_VALUE_DEFAULT);
}

static int real_capture_begin(struct cuda_rt *rt, struct rt_stream *stream)
{
	(void)rt;
	return result(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
}

static int real_capture_end(struct cuda_rt *rt, struct rt_stream *stream, struct rt_graph **graph)
{
	(void)rt;
	cudaGraph_t recorded = NULL;
	cudaError_t code = cudaStreamEndCapture(stream_of(stream), &recorded);
	if (code == cudaSuccess)
		code = cudaGraphInstantiateWithFlags((cudaGraphExec_t *)graph, recorded, 0);
	if (recorded)
		(void)cudaGraphDestroy(recorded);
	return result(code);
}

static int real_graph_launch(struct cuda_rt *rt, struct rt_graph *graph, struct rt_stream *stream)
{
	(void)rt;
	return result(cudaGraphLaunch((cudaGraphExec_t)graph, stream_of(stream)));
}

static int real_graph_destroy(struct cuda_rt *rt, struct rt_graph *graph)
{
	(void)rt;
	return result(cudaGraphExecDestroy((cudaGraphExec_t)graph));
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

/* Digests run at the speed of the device's memory, alone on the stream: every multiprocessor works. What packs over the bus needs few of
 * them to fill it, and leaves the rest to the training. */
enum { DIGEST_BLOCKS_EACH = 4, PACK_BLOCKS = 32 };

static int digest_blocks(unsigned *blocks)
{
	int device, processors = 0;
	cudaError_t code = cudaGetDevice(&device);
	if (code == cudaSuccess)
		code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
	*blocks = (unsigned)processors * DIGEST_BLOCKS_EACH;
	return result(code);
}

static int real_digest(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		       uint64_t units, uint64_t *leaves, uint8_t *changed)
{
	(void)rt;
	unsigned blocks;
	int code = digest_blocks(&blocks);
	return code ? code : result((cudaError_t)gpu_digest(table, first, units, leaves, changed, blocks, stream));
}

static int real_pack(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		     uint64_t units, const uint8_t *changed, void *base)
{
	(void)rt;
	return result((cudaError_t)gpu_pack(table, first, units, changed, base, PACK_BLOCKS, stream));
}

static int real_unpack(struct cuda_rt *rt, struct rt_stream *stream, const struct gpu_table *table, uint64_t first,
		       uint64_t units, const void *base)
{
	(void)rt;
	return result((cudaError_t)gpu_unpack(table, first, units, base, PACK_BLOCKS, stream));
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
	.release = real_release,
	.errno_of = errno_of,
	.text_of = text_of,
	.count = real_count,
	.context_retain = real_context_retain,
	.context_release = real_context_release,
	.current = real_current,
	.make_current = real_make_current,
	.pitch_max = real_pitch_max,
	.host_register = real_host_register,
	.host_unregister = real_host_unregister,
	.stream_create = real_stream_create,
	.stream_destroy = real_stream_destroy,
	.stream_query = real_stream_query,
	.stream_device = real_stream_device,
	.stream_context = real_stream_context,
	.stream_wait = real_stream_wait,
	.event_create = real_event_create,
	.event_destroy = real_event_destroy,
	.event_record = real_event_record,
	.event_query = real_event_query,
	.copy = real_copy,
	.copy2d = real_copy2d,
	.write64 = real_write64,
	.write32 = real_write32,
	.capture_begin = real_capture_begin,
	.capture_end = real_capture_end,
	.graph_launch = real_graph_launch,
	.graph_destroy = real_graph_destroy,
	.alloc = real_alloc,
	.free = real_free,
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

static int entry_point(const char *name, unsigned version, void **fn, struct err *err)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	int code = result(cudaGetDriverEntryPointByVersion(name, fn, version, cudaEnableDefault, &found));
	if (code)
		return err_set(err, errno_of(NULL, code), "asking the CUDA driver for %s: %s", name,
			       text_of(NULL, code));
	if (found != cudaDriverEntryPointSuccess || !*fn)
		return err_set(err, -ENODEV, "the CUDA driver has no %s: it is older than CUDA %u.%u", name,
			       version / 1000, version % 1000 / 10);
	return 0;
}

/* How captures are put on the stream; for measuring which is better. */
static int capture_mode(bool *batched, struct err *err)
{
	const char *mode = getenv("CKPT_CUDA_CAPTURE");
	*batched = mode && !strcmp(mode, "batch");
	if (mode && *mode && !*batched && strcmp(mode, "graph"))
		return err_set(err, -EINVAL, "CKPT_CUDA_CAPTURE is \"%.40s\", not graph or batch", mode);
	return 0;
}

static int take_entry_points(struct real *real, struct err *err)
{
	void *fns[7] = {NULL};
	static const struct {
		const char *name;
		unsigned version;
	} wanted[] = {{"cuStreamWriteValue64", WRITE_VALUE_VERSION},
		      {"cuStreamWriteValue32", WRITE_VALUE_VERSION},
		      {"cuDevicePrimaryCtxRetain", CONTEXT_VERSION},
		      {"cuDevicePrimaryCtxRelease", CONTEXT_VERSION},
		      {"cuCtxGetCurrent", CONTEXT_VERSION},
		      {"cuCtxSetCurrent", CONTEXT_VERSION},
		      {"cuStreamGetCtx", CONTEXT_VERSION}};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sizeof(fns) / sizeof(*fns); i++)
		rc = entry_point(wanted[i].name, wanted[i].version, &fns[i], err);
	real->write64 = (write64_fn *)fns[0];
	real->write32 = (write32_fn *)fns[1];
	real->context_retain = (context_retain_fn *)fns[2];
	real->context_release = (context_release_fn *)fns[3];
	real->current = (current_fn *)fns[4];
	real->make_current = (make_current_fn *)fns[5];
	real->stream_context = (stream_context_fn *)fns[6];
	return rc;
}

int cuda_rt_real(struct cuda_rt **out, struct err *err)
{
	int devices = 0, code = real_count(NULL, &devices);
	void *stream_device = NULL;
	struct err why;
	*out = NULL;
	if (code)
		return err_set(err, errno_of(NULL, code), "no GPU can be used: %s", text_of(NULL, code));
	struct real *real = malloc(sizeof(*real));
	if (!real)
		return err_set(err, -ENOMEM, "out of memory for the CUDA runtime's table");
	*real = (struct real){.rt = table};
	int rc = take_entry_points(real, err);
	if (rc == 0)
		rc = capture_mode(&real->rt.batched, err);
	if (rc < 0) {
		free(real);
		return rc;
	}
	if (entry_point("cuStreamGetDevice", STREAM_DEVICE_VERSION, &stream_device, &why) < 0)
		real->rt.stream_device = NULL;
	*out = &real->rt;
	return 0;
}
