/*
 * The kernels of the model, plain C: device memory as pointers, streams as void *. Each computes what its reference on the host does
 * (layers.h, attention.h, optimizer.h), from values that are rounded to bf16 where `bf16` stands, sums in single precision.
 * Products of matrices are cuBLAS's (gpu_blas.h).
 *
 * Every sum has a fixed order: equal inputs give equal bits in every run. Calls put the kernel on the stream and return 0 or the
 * vendor's code.
 */
#ifndef CKPT_TRAINER_GPU_LAYERS_H
#define CKPT_TRAINER_GPU_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The upper half of a float's bits, rounded to nearest even. */
typedef uint16_t bf16;

/* Sums over rows are made in so many parts, side by side: scratch has GPU_PARTS * width floats. */
enum { GPU_PARTS = 64 };

int gpu_to_bf16(const float *from, bf16 *to, size_t n, void *stream);

int gpu_embedding(size_t rows, size_t seq_len, size_t width, const uint8_t *input, const float *token,
		  const float *position, float *out, void *stream);
/* Overwrites the gradients. */
int gpu_embedding_backward(size_t rows, size_t seq_len, size_t width, const uint8_t *input, const float *dout,
			   float *dtoken, float *dposition, void *stream);

int gpu_norm(size_t rows, size_t width, const float *x, const float *weight, const float *bias, bf16 *out, float *mean,
	     float *rstd, void *stream);
/* Adds to dx, overwrites the gradients of the parameters. */
int gpu_norm_backward(size_t rows, size_t width, const float *dout, const float *x, const float *weight,
		      const float *mean, const float *rstd, float *dx, float *dweight, float *dbias, float *scratch,
		      void *stream);

/* y[rows,width] += bias */
int gpu_add_bias(size_t rows, size_t width, const float *bias, bf16 *y, void *stream);
/* out = x + branch + bias; out may be x or branch. */
int gpu_add_branch(size_t rows, size_t width, const float *x, const float *branch, const float *bias, float *out,
		   void *stream);
/* dbias[width] = the sums of dy's columns */
int gpu_bias_backward(size_t rows, size_t width, const bf16 *dy, float *dbias, float *scratch, void *stream);

int gpu_gelu(size_t n, const bf16 *x, bf16 *y, void *stream);
/* dy becomes dx. */
int gpu_gelu_backward(size_t n, const bf16 *x, bf16 *dy, void *stream);

/* scores[matrices, seq_len, seq_len] to weights, row by row; what lies in a row's future gets 0 */
int gpu_softmax(size_t matrices, size_t seq_len, float scale, const float *scores, bf16 *weights, void *stream);
int gpu_softmax_backward(size_t matrices, size_t seq_len, float scale, const bf16 *weights, const float *dweights,
			 bf16 *dscores, void *stream);

/* losses[rows] in nats; dlogits = scale * dloss/dlogits; 256 classes */
int gpu_cross_entropy(size_t rows, const float *logits, const uint8_t *target, float scale, bf16 *dlogits,
		      float *losses, void *stream);

/* What is the same for all elements of an update; see optimizer.c. */
struct gpu_adam {
	float beta1, beta2, epsilon, rate, second_unbias, keep;
};
int gpu_adam(size_t n, const struct gpu_adam *factors, float *param, const float *grad, float *exp_avg,
	     float *exp_avg_sq, void *stream);

#ifdef __cplusplus
}
#endif

#endif
