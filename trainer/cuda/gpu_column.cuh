/* Sums over rows: a thread for each column and part, then one for each column over the parts. Reads are in lines, and the order is
 * fixed, which atomics would not give. */
#ifndef CKPT_TRAINER_GPU_COLUMN_CUH
#define CKPT_TRAINER_GPU_COLUMN_CUH

#include "gpu_common.cuh"

/* blockIdx.y is the part. term(row, index) is what is summed. */
template <typename Term>
static __global__ void __launch_bounds__(THREADS) parts_kernel(size_t rows, size_t width, Term term, float *parts)
{
	size_t each = (rows + GPU_PARTS - 1) / GPU_PARTS, from = blockIdx.y * each;
	size_t to = from + each < rows ? from + each : rows;
	for (size_t i = first(); i < width; i += step()) {
		float sum = 0;
		for (size_t r = from; r < to; r++)
			sum += term(r, r * width + i);
		parts[blockIdx.y * width + i] = sum;
	}
}

static __global__ void __launch_bounds__(THREADS) sum_parts_kernel(size_t width, const float *parts, float *out)
{
	for (size_t i = first(); i < width; i += step()) {
		float sum = 0;
		for (size_t p = 0; p < GPU_PARTS; p++)
			sum += parts[p * width + i];
		out[i] = sum;
	}
}

template <typename Term>
static int column_sums(size_t rows, size_t width, Term term, float *out, float *scratch, void *stream)
{
	int code = launch_sets(width, GPU_PARTS, stream, parts_kernel<Term>, rows, width, term, scratch);
	return code ? code
		    : launch_flat(width, stream, sum_parts_kernel, width, static_cast<const float *>(scratch), out);
}

#endif
