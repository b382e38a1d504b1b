/* Layer norm. A block for each row; the gradients of the parameters are sums over rows, made in parts. */
#include "gpu_column.cuh"

static __global__ void __launch_bounds__(THREADS)
	norm_kernel(size_t rows, size_t width, const float *x, const float *weight, const float *bias, bf16 *out,
		    float *mean, float *rstd)
{
	__shared__ float near[THREADS / WARP + 1];
	for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
		const float *row = x + r * width;
		float sum = 0, squares = 0;
		for (size_t i = threadIdx.x; i < width; i += THREADS)
			sum += row[i];
		float m = over_block(sum, near, add()) / static_cast<float>(width);
		for (size_t i = threadIdx.x; i < width; i += THREADS)
			squares += (row[i] - m) * (row[i] - m);
		float s = rsqrtf(over_block(squares, near, add()) / static_cast<float>(width) + 1e-5f);
		for (size_t i = threadIdx.x; i < width; i += THREADS)
			out[r * width + i] = to_bf16((row[i] - m) * s * weight[i] + bias[i]);
		if (!threadIdx.x) {
			mean[r] = m;
			rstd[r] = s;
		}
	}
}

int gpu_norm(size_t rows, size_t width, const float *x, const float *weight, const float *bias, bf16 *out, float *mean,
	     float *rstd, void *stream)
{
	return launch_rows(rows, stream, norm_kernel, rows, width, x, weight, bias, out, mean, rstd);
}

static __global__ void __launch_bounds__(THREADS)
	norm_input_kernel(size_t rows, size_t width, const float *dout, const float *x, const float *weight,
			  const float *mean, const float *rstd, float *dx)
{
	__shared__ float near[THREADS / WARP + 1];
	for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
		const float *row = x + r * width, *d = dout + r * width;
		float m = mean[r], s = rstd[r], sum_g = 0, sum_gx = 0;
		for (size_t i = threadIdx.x; i < width; i += THREADS) {
			float g = d[i] * weight[i];
			sum_g += g;
			sum_gx += g * ((row[i] - m) * s);
		}
		sum_g = over_block(sum_g, near, add()) / static_cast<float>(width);
		sum_gx = over_block(sum_gx, near, add()) / static_cast<float>(width);
		for (size_t i = threadIdx.x; i < width; i += THREADS)
			dx[r * width + i] += (d[i] * weight[i] - sum_g - (row[i] - m) * s * sum_gx) * s;
	}
}

struct norm_weight_term {
	const float *dout, *x, *mean, *rstd;
	__device__ float operator()(size_t row, size_t at) const
	{
		return dout[at] * ((x[at] - mean[row]) * rstd[row]);
	}
};

struct norm_bias_term {
	const float *dout;
	__device__ float operator()(size_t, size_t at) const
	{
		return dout[at];
	}
};

int gpu_norm_backward(size_t rows, size_t width, const float *dout, const float *x, const float *weight,
		      const float *mean, const float *rstd, float *dx, float *dweight, float *dbias, float *scratch,
		      void *stream)
{
	int code = launch_rows(rows, stream, norm_input_kernel, rows, width, dout, x, weight, mean, rstd, dx);
	if (!code)
		code = column_sums(rows, width, norm_weight_term{dout, x, mean, rstd}, dweight, scratch, stream);
	return code ? code : column_sums(rows, width, norm_bias_term{dout}, dbias, scratch, stream);
}
