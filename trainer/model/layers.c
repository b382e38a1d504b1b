#include "model/layers.h"

#include <math.h>
#include <string.h>

#include "common/clones.h"
#include "common/exponential.h"
#include "model/matmul.h"

enum { LANES = 16 };

static inline float add_lanes(float *lane)
{
	for (size_t half = LANES / 2; half; half /= 2)
		for (size_t j = 0; j < half; j++)
			lane[j] += lane[j + half];
	return lane[0];
}

HOT float sum_fixed(const float *x, size_t n)
{
	float lane[LANES] = {0};
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (size_t j = 0; j < LANES; j++)
			lane[j] += x[i + j];
	for (size_t j = 0; i < n; i++, j++)
		lane[j] += x[i];
	return add_lanes(lane);
}

/* The sum of (x - shift)^2, in the order of sum_fixed(). */
HOT static float sum_squares(const float *x, size_t n, float shift)
{
	float lane[LANES] = {0};
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (size_t j = 0; j < LANES; j++)
			lane[j] += (x[i + j] - shift) * (x[i + j] - shift);
	for (size_t j = 0; i < n; i++, j++)
		lane[j] += (x[i] - shift) * (x[i] - shift);
	return add_lanes(lane);
}

HOT void layer_norm_forward(size_t rows, size_t width, const float *x, const float *weight, const float *bias,
			    float *out, float *mean, float *rstd)
{
	for (size_t r = 0; r < rows; r++, x += width, out += width) {
		float m = sum_fixed(x, width) / (float)width;
		float s = 1.0f / sqrtf(sum_squares(x, width, m) / (float)width + 1e-5f);

		for (size_t i = 0; i < width; i++)
			out[i] = (x[i] - m) * s * weight[i] + bias[i];
		mean[r] = m;
		rstd[r] = s;
	}
}

/* The two sums over a row that couple its elements: of g = dout * weight, and of g * xhat. */
static inline void layer_norm_sums(size_t width, const float *dout, const float *x, const float *weight, float mean,
				   float rstd, float *sum_g, float *sum_gx)
{
	float g_lane[LANES] = {0}, gx_lane[LANES] = {0};

	for (size_t i = 0; i < width; i += LANES) {
		size_t n = width - i < LANES ? width - i : LANES;

		for (size_t j = 0; j < n; j++) {
			float g = dout[i + j] * weight[i + j];

			g_lane[j] += g;
			gx_lane[j] += g * ((x[i + j] - mean) * rstd);
		}
	}
	*sum_g = add_lanes(g_lane);
	*sum_gx = add_lanes(gx_lane);
}

HOT void layer_norm_backward(size_t rows, size_t width, const float *dout, const float *x, const float *weight,
			     const float *mean, const float *rstd, float *dx, float *dweight, float *dbias)
{
	for (size_t r = 0; r < rows; r++, x += width, dout += width, dx += width) {
		float sum_g, sum_gx, m = mean[r], s = rstd[r];

		layer_norm_sums(width, dout, x, weight, m, s, &sum_g, &sum_gx);
		sum_g /= (float)width;
		sum_gx /= (float)width;
		for (size_t i = 0; i < width; i++) {
			float xhat = (x[i] - m) * s;

			dx[i] += (dout[i] * weight[i] - sum_g - xhat * sum_gx) * s;
			dweight[i] += dout[i] * xhat;
			dbias[i] += dout[i];
		}
	}
}

void linear_forward(size_t rows, size_t in, size_t out, const float *x, const float *weight, const float *bias,
		    float *y)
{
	if (bias)
		for (size_t r = 0; r < rows; r++)
			memcpy(y + r * out, bias, out * sizeof(float));
	matmul_nt(rows, out, in, x, in, weight, in, y, out, bias != NULL);
}

void linear_backward(size_t rows, size_t in, size_t out, const float *dy, const float *x, const float *weight,
		     float *dx, float *dweight, float *dbias)
{
	matmul_nn(rows, in, out, dy, out, weight, in, dx, in, false);
	matmul_tn(out, in, rows, dy, out, x, in, dweight, in, true);
	if (dbias)
		for (size_t r = 0; r < rows; r++)
			for (size_t i = 0; i < out; i++)
				dbias[i] += dy[r * out + i];
}

/* 0.5 * (1 + tanh(u)) is the logistic function of 2u: one exponential and no cancellation. */
static inline float gelu_gate(float x)
{
	return 1.0f / (1.0f + exponential(-1.5957691f * (x + 0.044715f * x * x * x)));
}

HOT void gelu_forward(size_t n, const float *x, float *y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] * gelu_gate(x[i]);
}

HOT void gelu_backward(size_t n, const float *x, const float *dy, float *dx)
{
	for (size_t i = 0; i < n; i++) {
		float gate = gelu_gate(x[i]);
		float slope = 1.5957691f * (1.0f + 0.134145f * x[i] * x[i]);

		dx[i] = dy[i] * (gate + x[i] * gate * (1.0f - gate) * slope);
	}
}

void embedding_forward(size_t rows, size_t seq_len, size_t width, const uint8_t *input, const float *token_weight,
		       const float *position_weight, float *out)
{
	for (size_t r = 0; r < rows; r++) {
		const float *token = token_weight + input[r] * width;
		const float *position = position_weight + (r % seq_len) * width;

		for (size_t i = 0; i < width; i++)
			out[r * width + i] = token[i] + position[i];
	}
}

void embedding_backward(size_t rows, size_t seq_len, size_t width, const uint8_t *input, const float *dout,
			float *dtoken_weight, float *dposition_weight)
{
	for (size_t r = 0; r < rows; r++) {
		float *dtoken = dtoken_weight + input[r] * width;
		float *dposition = dposition_weight + (r % seq_len) * width;

		for (size_t i = 0; i < width; i++) {
			dtoken[i] += dout[r * width + i];
			dposition[i] += dout[r * width + i];
		}
	}
}

/* The largest element; n > 0. */
static inline float maximum(const float *x, size_t n)
{
	float lane[LANES], max = x[0];
	size_t i = 0;

	for (size_t j = 0; j < LANES; j++)
		lane[j] = x[0];
	for (; i + LANES <= n; i += LANES)
		for (size_t j = 0; j < LANES; j++)
			lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
	for (; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (size_t j = 0; j < LANES; j++)
		max = lane[j] > max ? lane[j] : max;
	return max;
}

HOT double softmax(size_t n, float *x)
{
	float max = maximum(x, n);

	for (size_t i = 0; i < n; i++)
		x[i] = exponential(x[i] - max);
	float sum = sum_fixed(x, n);
	float inverse = 1.0f / sum;
	for (size_t i = 0; i < n; i++)
		x[i] *= inverse;
	return log((double)sum) + (double)max;
}

double cross_entropy(size_t rows, size_t classes, float *logits, const uint8_t *target, float scale)
{
	double loss = 0;

	for (size_t r = 0; r < rows; r++, logits += classes) {
		double at_target = logits[target[r]];

		loss += softmax(classes, logits) - at_target;
		logits[target[r]] -= 1.0f;
		for (size_t i = 0; i < classes; i++)
			logits[i] *= scale;
	}
	return loss;
}
