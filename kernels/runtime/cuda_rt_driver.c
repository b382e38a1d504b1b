/* Calls of the driver. Its library is not linked: they are taken through the runtime, so that one binary starts on machines without a
 * driver. */
#include "cuda_real.h"

#include <cuda_runtime_api.h>

/* The first driver interface in which stream memory operations need no opt-in by the administrator. */
enum { WRITE_VALUE_VERSION = 12000, STREAM_DEVICE_VERSION = 12080, BATCH_VERSION = 12080, CONTEXT_VERSION = 12000 };

static const struct real *real_of(struct cuda_rt *rt)
{
	return (const struct real *)rt;
}

/* CUresult has cudaError's numbers. An ordinal is a CUdevice. */
int cuda_real_context_retain(struct cuda_rt *rt, int ordinal, struct rt_context **context)
{
	return (int)real_of(rt)->context_retain((CUcontext *)context, ordinal);
}

int cuda_real_context_release(struct cuda_rt *rt, int ordinal)
{
	return (int)real_of(rt)->context_release(ordinal);
}

int cuda_real_current(struct cuda_rt *rt, struct rt_context **context)
{
	return (int)real_of(rt)->current((CUcontext *)context);
}

int cuda_real_make_current(struct cuda_rt *rt, struct rt_context *context)
{
	return (int)real_of(rt)->make_current((CUcontext)context);
}

int cuda_real_stream_context(struct cuda_rt *rt, struct rt_stream *stream, struct rt_context **context)
{
	return (int)real_of(rt)->stream_context((CUstream)stream, (CUcontext *)context);
}

int cuda_real_allocation(struct cuda_rt *rt, const void *memory, void **base, size_t *size)
{
	CUdeviceptr from = 0;
	CUresult code = real_of(rt)->allocation(&from, size, (CUdeviceptr)(uintptr_t)memory);
	bool known = code != CUDA_ERROR_INVALID_VALUE && code != CUDA_ERROR_NOT_FOUND;
	*base = (void *)(uintptr_t)from;
	if (code != CUDA_SUCCESS)
		*size = 0;
	return known ? (int)code : 0;
}

int cuda_real_traits(struct cuda_rt *rt, int ordinal, struct rt_traits *traits)
{
	const struct real *real = real_of(rt);
	int writes = 0,
	    code = (int)real->attribute(&writes, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, ordinal);
	if (!code)
		code = (int)real->attribute(&traits->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal);
	if (!code)
		code = (int)real->attribute(&traits->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal);
	traits->writes = writes;
	return code;
}

/* The default flags: earlier operations of the stream are visible before the value is. */
int cuda_real_write64(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint64_t value)
{
	return (int)real_of(rt)->write64((CUstream)stream, (CUdeviceptr)(uintptr_t)at, value,
					 CU_STREAM_WRITE_VALUE_DEFAULT);
}

int cuda_real_write32(struct cuda_rt *rt, struct rt_stream *stream, void *at, uint32_t value)
{
	return (int)real_of(rt)->write32((CUstream)stream, (CUdeviceptr)(uintptr_t)at, value,
					 CU_STREAM_WRITE_VALUE_DEFAULT);
}

/* ---- finding them ---- */

static int entry_point(const char *name, unsigned version, void **fn, struct err *err)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	int code =
		cuda_real_result((int)cudaGetDriverEntryPointByVersion(name, fn, version, cudaEnableDefault, &found));
	if (code)
		return err_set(err, cuda_real_errno(NULL, code), "asking the CUDA driver for %s: %s", name,
			       cuda_real_text(NULL, code));
	if (found != cudaDriverEntryPointSuccess || !*fn)
		return err_set(err, -ENODEV, "the CUDA driver has no %s: it is older than CUDA %u.%u", name,
			       version / 1000, version % 1000 / 10);
	return 0;
}

int cuda_real_driver(struct real *real, struct err *err)
{
	void *fns[9] = {NULL}, *newer = NULL;
	struct err why;
	static const struct {
		const char *name;
		unsigned version;
	} wanted[] = {{"cuStreamWriteValue64", WRITE_VALUE_VERSION}, {"cuStreamWriteValue32", WRITE_VALUE_VERSION},
		      {"cuDevicePrimaryCtxRetain", CONTEXT_VERSION}, {"cuDevicePrimaryCtxRelease", CONTEXT_VERSION},
		      {"cuCtxGetCurrent", CONTEXT_VERSION},          {"cuCtxSetCurrent", CONTEXT_VERSION},
		      {"cuStreamGetCtx", CONTEXT_VERSION},           {"cuDeviceGetAttribute", CONTEXT_VERSION},
		      {"cuMemGetAddressRange", CONTEXT_VERSION}};
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
	real->attribute = (attribute_fn *)fns[7];
	real->allocation = (allocation_fn *)fns[8];
	if (rc == 0 && entry_point("cuStreamGetDevice", STREAM_DEVICE_VERSION, &newer, &why) < 0)
		real->rt.stream_device = NULL;
	if (rc == 0 && entry_point("cuMemcpyBatchAsync", BATCH_VERSION, &newer, &why) < 0)
		real->rt.copy_batch = NULL;
	return rc;
}
