/* Bytes to vectors and back. The way back is a sum over the rows that have the byte: a block looks for them, for one byte and
 * THREADS columns, in the order of rows. */
#include "gpu_common.cuh"

enum { VOCAB = 256 };

static __global__ void __launch_bounds__(THREADS)
	embedding_kernel(size_t n, size_t seq_len, size_t width, const uint8_t *input, const float *token,
			 const float *position, float *out)
{
	for (size_t i = first(); i < n; i += step()) {
		size_t row = i / width, column = i % width;
		out[i] = token[input[row] * width + column] + position[row % seq_len * width + column];
	}
}

int gpu_embedding(size_t rows, size_t seq_len, size_t width, const uint8_t *input, const float *token,
		  const float *position, float *out, void *stream)
{
	return launch_flat(rows * width, stream, embedding_kernel, rows * width, seq_len, width, input, token, position,
			   out);
}

static __global__ void __launch_bounds__(THREADS)
	token_kernel(size_t rows, size_t width, const uint8_t *input, const float *dout, float *dtoken)
{
	for (size_t column = first(); column < width; column += step()) {
		float sum = 0;
		for (size_t r = 0; r < rows; r++)
			if (input[r] == blockIdx.y)
				sum += dout[r * width + column];
		dtoken[blockIdx.y * width + column] = sum;
	}
}

static __global__ void __launch_bounds__(THREADS)
	position_kernel(size_t rows, size_t seq_len, size_t width, const float *dout, float *dposition)
{
	size_t n = seq_len * width;
	for (size_t i = first(); i < n; i += step()) {
		float sum = 0;
		for (size_t at = i; at < rows * width; at += n)
			sum += dout[at];
		dposition[i] = sum;
	}
}

int gpu_embedding_backward(size_t rows, size_t seq_len, size_t width, const uint8_t *input, const float *dout,
			   float *dtoken, float *dposition, void *stream)
{
	int code = launch_sets(width, VOCAB, stream, token_kernel, rows, width, input, dout, dtoken);
	return code ? code
		    : launch_flat(seq_len * width, stream, position_kernel, rows, seq_len, width, dout, dposition);
}
