/* What goes element by element, and sums of columns for biases. */
#include "gpu_column.cuh"

static __global__ void __launch_bounds__(THREADS) to_bf16_kernel(const float *from, bf16 *to, size_t n)
{
	for (size_t i = first(); i < n; i += step())
		to[i] = to_bf16(from[i]);
}

int gpu_to_bf16(const float *from, bf16 *to, size_t n, void *stream)
{
	return launch_flat(n, stream, to_bf16_kernel, from, to, n);
}

static __global__ void __launch_bounds__(THREADS) add_bias_kernel(size_t n, size_t width, const float *bias, bf16 *y)
{
	for (size_t i = first(); i < n; i += step())
		y[i] = to_bf16(from_bf16(y[i]) + bias[i % width]);
}

int gpu_add_bias(size_t rows, size_t width, const float *bias, bf16 *y, void *stream)
{
	return launch_flat(rows * width, stream, add_bias_kernel, rows * width, width, bias, y);
}

static __global__ void __launch_bounds__(THREADS)
	add_branch_kernel(size_t n, size_t width, const float *x, const float *branch, const float *bias, float *out)
{
	for (size_t i = first(); i < n; i += step())
		out[i] = x[i] + (branch[i] + bias[i % width]);
}

int gpu_add_branch(size_t rows, size_t width, const float *x, const float *branch, const float *bias, float *out,
		   void *stream)
{
	return launch_flat(rows * width, stream, add_branch_kernel, rows * width, width, x, branch, bias, out);
}

struct bias_term {
	const bf16 *dy;
	__device__ float operator()(size_t, size_t at) const
	{
		return from_bf16(dy[at]);
	}
};

int gpu_bias_backward(size_t rows, size_t width, const bf16 *dy, float *dbias, float *scratch, void *stream)
{
	return column_sums(rows, width, bias_term{dy}, dbias, scratch, stream);
}

/* As in layers.c: 0.5 * (1 + tanh(u)) is the logistic function of 2u. */
static __device__ float gelu_gate(float x)
{
	return 1.0f / (1.0f + expf(-1.5957691f * (x + 0.044715f * x * x * x)));
}

static __global__ void __launch_bounds__(THREADS) gelu_kernel(size_t n, const bf16 *x, bf16 *y)
{
	for (size_t i = first(); i < n; i += step()) {
		float v = from_bf16(x[i]);
		y[i] = to_bf16(v * gelu_gate(v));
	}
}

int gpu_gelu(size_t n, const bf16 *x, bf16 *y, void *stream)
{
	return launch_flat(n, stream, gelu_kernel, n, x, y);
}

static __global__ void __launch_bounds__(THREADS) gelu_backward_kernel(size_t n, const bf16 *x, bf16 *dy)
{
	for (size_t i = first(); i < n; i += step()) {
		float v = from_bf16(x[i]), gate = gelu_gate(v), slope = 1.5957691f * (1.0f + 0.134145f * v * v);
		dy[i] = to_bf16(from_bf16(dy[i]) * (gate + v * gate * (1.0f - gate) * slope));
	}
}

int gpu_gelu_backward(size_t n, const bf16 *x, bf16 *dy, void *stream)
{
	return launch_flat(n, stream, gelu_backward_kernel, n, x, dy);
}

static __global__ void __launch_bounds__(THREADS)
	adam_kernel(size_t n, struct gpu_adam f, float *param, const float *grad, float *exp_avg, float *exp_avg_sq)
{
	for (size_t i = first(); i < n; i += step()) {
		float g = grad[i];
		float m = f.beta1 * exp_avg[i] + (1.0f - f.beta1) * g;
		float v = f.beta2 * exp_avg_sq[i] + (1.0f - f.beta2) * (g * g);
		exp_avg[i] = m;
		exp_avg_sq[i] = v;
		param[i] = f.keep * param[i] - f.rate * (m / (sqrtf(v * f.second_unbias) + f.epsilon));
	}
}

int gpu_adam(size_t n, const struct gpu_adam *factors, float *param, const float *grad, float *exp_avg,
	     float *exp_avg_sq, void *stream)
{
	return launch_flat(n, stream, adam_kernel, n, *factors, param, grad, exp_avg, exp_avg_sq);
}
