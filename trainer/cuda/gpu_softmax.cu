/* Softmax: of attention, a block for each row of scores, and of the loss, a block for each row of logits. */
#include "gpu_common.cuh"

static __global__ void __launch_bounds__(THREADS)
	softmax_kernel(size_t rows, size_t seq_len, float scale, const float *scores, bf16 *weights)
{
	__shared__ float near[THREADS / WARP + 1];
	for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
		const float *row = scores + r * seq_len;
		size_t n = r % seq_len + 1;
		float most = -INFINITY, sum = 0;
		for (size_t i = threadIdx.x; i < n; i += THREADS)
			most = larger()(row[i] * scale, most);
		most = over_block(most, near, larger());
		for (size_t i = threadIdx.x; i < n; i += THREADS)
			sum += expf(row[i] * scale - most);
		float inverse = 1.0f / over_block(sum, near, add());
		for (size_t i = threadIdx.x; i < seq_len; i += THREADS)
			weights[r * seq_len + i] = to_bf16(i < n ? expf(row[i] * scale - most) * inverse : 0.0f);
	}
}

int gpu_softmax(size_t matrices, size_t seq_len, float scale, const float *scores, bf16 *weights, void *stream)
{
	return launch_rows(matrices * seq_len, stream, softmax_kernel, matrices * seq_len, seq_len, scale, scores,
			   weights);
}

static __global__ void __launch_bounds__(THREADS)
	softmax_backward_kernel(size_t rows, size_t seq_len, float scale, const bf16 *weights, const float *dweights,
				bf16 *dscores)
{
	__shared__ float near[THREADS / WARP + 1];
	for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
		const float *d = dweights + r * seq_len;
		const bf16 *w = weights + r * seq_len;
		size_t n = r % seq_len + 1;
		float sum = 0;
		for (size_t i = threadIdx.x; i < n; i += THREADS)
			sum += from_bf16(w[i]) * d[i];
		sum = over_block(sum, near, add());
		for (size_t i = threadIdx.x; i < seq_len; i += THREADS)
			dscores[r * seq_len + i] = to_bf16(i < n ? from_bf16(w[i]) * (d[i] - sum) * scale : 0.0f);
	}
}

int gpu_softmax_backward(size_t matrices, size_t seq_len, float scale, const bf16 *weights, const float *dweights,
			 bf16 *dscores, void *stream)
{
	return launch_rows(matrices * seq_len, stream, softmax_backward_kernel, matrices * seq_len, seq_len, scale,
			   weights, dweights, dscores);
}

/* A thread for each class. */
static __global__ void __launch_bounds__(THREADS)
	cross_entropy_kernel(size_t rows, const float *logits, const uint8_t *target, float scale, bf16 *dlogits,
			     float *losses)
{
	__shared__ float near[THREADS / WARP + 1];
	for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
		float own = logits[r * THREADS + threadIdx.x];
		float most = over_block(own, near, larger());
		float part = expf(own - most), sum = over_block(part, near, add());
		bool hit = threadIdx.x == target[r];
		dlogits[r * THREADS + threadIdx.x] = to_bf16((part / sum - (hit ? 1.0f : 0.0f)) * scale);
		if (hit)
			losses[r] = logf(sum) + most - own;
	}
}

int gpu_cross_entropy(size_t rows, const float *logits, const uint8_t *target, float scale, bf16 *dlogits,
		      float *losses, void *stream)
{
	return launch_rows(rows, stream, cross_entropy_kernel, rows, logits, target, scale, dlogits, losses);
}
