#include "model/matmul.h"

#include <errno.h>
#include <string.h>

/*
 * B is packed panel by panel, as wide as the kernel's tile, so that the inner loop reads it in order
 * whatever its layout; A is read in place, one broadcast element at a time, so it needs no packing.
 */
enum {
	BLOCK_DEPTH = 256, /* a packed panel, at most 32 KiB, stays in the first-level cache */
	MAX_TILE_COLS = 32,
	MAX_TILE_ROWS = 8,
};

typedef void tile_fn(size_t depth, const float *a, size_t row, size_t col, const float *b, float *c, size_t ldc,
		     bool accumulate);

struct kernel {
	const char *name;
	size_t rows, cols; /* of the full tile */
	tile_fn *full;
	tile_fn *single; /* one row, for the rows that are left over */
};

/* A matrix as seen by the product: element (i,j) is data[i * row + j * col]. */
struct view {
	const float *data;
	size_t row, col;
};

#if defined(__x86_64__)
#if defined(__clang__) /* knows no width to prefer */
#define TILE_TARGET "avx512f,avx2"
#else
#define TILE_TARGET "avx512f,avx2,prefer-vector-width=512"
#endif
#define TILE_LANES 16
#define TILE_VECTORS 2
#define TILE_NAME tile_avx512_full
#define TILE_ROWS 8
#include "model/matmul_tile.h"
#define TILE_NAME tile_avx512_single
#define TILE_ROWS 1
#include "model/matmul_tile.h"
#undef TILE_TARGET
#undef TILE_LANES
#undef TILE_VECTORS

#define TILE_TARGET "avx2"
#define TILE_LANES 8
#define TILE_VECTORS 2
#define TILE_NAME tile_avx2_full
#define TILE_ROWS 4
#include "model/matmul_tile.h"
#define TILE_NAME tile_avx2_single
#define TILE_ROWS 1
#include "model/matmul_tile.h"
#undef TILE_TARGET
#undef TILE_LANES
#undef TILE_VECTORS
#endif

#define TILE_LANES 4
#define TILE_VECTORS 2
#define TILE_NAME tile_generic_full
#define TILE_ROWS 4
#include "model/matmul_tile.h"
#define TILE_NAME tile_generic_single
#define TILE_ROWS 1
#include "model/matmul_tile.h"

static const struct kernel kernels[] = {
#if defined(__x86_64__)
	{"avx512f", 8, 32, tile_avx512_full, tile_avx512_single},
	{"avx2", 4, 16, tile_avx2_full, tile_avx2_single},
#endif
	{"generic", 4, 8, tile_generic_full, tile_generic_single},
};

enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]) };

static bool kernel_runs(const struct kernel *kernel)
{
#if defined(__x86_64__)
	if (!strcmp(kernel->name, "avx512f"))
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx2");
	if (!strcmp(kernel->name, "avx2"))
		return __builtin_cpu_supports("avx2");
#endif
	return kernel == &kernels[KERNELS - 1];
}

static const struct kernel *choose_kernel(void)
{
	const struct kernel *kernel = kernels;

	while (!kernel_runs(kernel))
		kernel++;
	return kernel;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Packs `cols` (at most `width`) columns of B; the rest of the panel is zero, so that its lanes stay finite. */
static void pack_panel(float *panel, size_t width, size_t depth, size_t cols, struct view b)
{
	if (b.col == 1) {
		for (size_t k = 0; k < depth; k++) {
			memcpy(panel + k * width, b.data + k * b.row, cols * sizeof(float));
			memset(panel + k * width + cols, 0, (width - cols) * sizeof(float));
		}
		return;
	}
	if (cols < width)
		memset(panel, 0, depth * width * sizeof(float));
	for (size_t k0 = 0; k0 < depth; k0 += 16) /* 16 floats of a stored row: one cache line */
		for (size_t j = 0; j < cols; j++)
			for (size_t k = k0; k < min_size(k0 + 16, depth); k++)
				panel[k * width + j] = b.data[k * b.row + j * b.col];
}

/* A tile narrower than the kernel's goes through a buffer; its unused lanes are computed and dropped. */
static void narrow_tile(tile_fn *tile, size_t rows, size_t width, size_t cols, size_t depth, struct view a,
			const float *panel, float *c, size_t ldc, bool accumulate)
{
	float buffer[MAX_TILE_ROWS * MAX_TILE_COLS] = {0};

	if (accumulate)
		for (size_t r = 0; r < rows; r++)
			memcpy(buffer + r * width, c + r * ldc, cols * sizeof(float));
	tile(depth, a.data, a.row, a.col, panel, buffer, width, accumulate);
	for (size_t r = 0; r < rows; r++)
		memcpy(c + r * ldc, buffer + r * width, cols * sizeof(float));
}

/* All rows of one panel: C[:, 0..cols) (+)= A * panel. */
static void multiply_panel(const struct kernel *kernel, size_t rows, size_t cols, size_t depth, struct view a,
			   const float *panel, float *c, size_t ldc, bool accumulate)
{
	for (size_t i = 0; i < rows;) {
		size_t step = rows - i >= kernel->rows ? kernel->rows : 1;
		tile_fn *tile = step == 1 ? kernel->single : kernel->full;
		struct view part = {a.data + i * a.row, a.row, a.col};

		if (cols == kernel->cols)
			tile(depth, part.data, a.row, a.col, panel, c + i * ldc, ldc, accumulate);
		else
			narrow_tile(tile, step, kernel->cols, cols, depth, part, panel, c + i * ldc, ldc, accumulate);
		i += step;
	}
}

static void multiply(const struct kernel *kernel, size_t rows, size_t cols, size_t depth, struct view a, struct view b,
		     float *c, size_t ldc, bool accumulate)
{
	_Alignas(64) float panel[BLOCK_DEPTH * MAX_TILE_COLS];
	size_t k = 0;

	do { /* once at least: a depth of 0 still has to write its zeros */
		size_t block = min_size(BLOCK_DEPTH, depth - k);

		for (size_t j = 0; j < cols; j += kernel->cols) {
			size_t width = min_size(kernel->cols, cols - j);
			struct view left = {a.data + k * a.col, a.row, a.col};
			struct view right = {b.data + k * b.row + j * b.col, b.row, b.col};

			pack_panel(panel, kernel->cols, block, width, right);
			multiply_panel(kernel, rows, width, block, left, panel, c + j, ldc, accumulate || k > 0);
		}
		k += block;
	} while (k < depth);
}

void matmul_nn(size_t rows, size_t cols, size_t depth, const float *a, size_t lda, const float *b, size_t ldb, float *c,
	       size_t ldc, bool accumulate)
{
	multiply(choose_kernel(), rows, cols, depth, (struct view){a, lda, 1}, (struct view){b, ldb, 1}, c, ldc,
		 accumulate);
}

void matmul_tn(size_t rows, size_t cols, size_t depth, const float *a, size_t lda, const float *b, size_t ldb, float *c,
	       size_t ldc, bool accumulate)
{
	multiply(choose_kernel(), rows, cols, depth, (struct view){a, 1, lda}, (struct view){b, ldb, 1}, c, ldc,
		 accumulate);
}

void matmul_nt(size_t rows, size_t cols, size_t depth, const float *a, size_t lda, const float *b, size_t ldb, float *c,
	       size_t ldc, bool accumulate)
{
	multiply(choose_kernel(), rows, cols, depth, (struct view){a, lda, 1}, (struct view){b, 1, ldb}, c, ldc,
		 accumulate);
}

int matmul_with(size_t kernel, const char **name, size_t rows, size_t cols, size_t depth, const float *a, size_t a_row,
		size_t a_col, const float *b, size_t b_row, size_t b_col, float *c, size_t ldc, bool accumulate)
{
	if (kernel >= KERNELS)
		return -ENOENT;
	if (name)
		*name = kernels[kernel].name;
	if (!kernel_runs(&kernels[kernel]))
		return -ENOTSUP;
	multiply(&kernels[kernel], rows, cols, depth, (struct view){a, a_row, a_col}, (struct view){b, b_row, b_col}, c,
		 ldc, accumulate);
	return 0;
}
