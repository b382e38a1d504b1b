/*
 * The inner kernel as a template: include it with
 *   TILE_NAME     the function's name
 *   TILE_TARGET   the instruction set, as __attribute__((target)) takes it ("" is a build error: leave undefined)
 *   TILE_ROWS     rows of C held in registers
 *   TILE_LANES    floats per vector
 *   TILE_VECTORS  vectors per row
 * A template and not an always_inline function, since GCC splits wide vectors into the callee's own
 * width before it inlines.
 *
 * Computes TILE_ROWS x (TILE_LANES * TILE_VECTORS) elements of C. A(r,k) is a[r * row + k * col]; B is
 * packed, TILE_LANES * TILE_VECTORS floats for each k.
 */
#ifdef TILE_TARGET
__attribute__((target(TILE_TARGET)))
#endif
static void
TILE_NAME(size_t depth, const float *a, size_t row, size_t col, const float *b, float *c, size_t ldc, bool accumulate)
{
	typedef float vec __attribute__((vector_size(TILE_LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
	vec sum[TILE_ROWS][TILE_VECTORS] = {0};

	if (accumulate)
#pragma GCC unroll 16
		for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 4
			for (int v = 0; v < TILE_VECTORS; v++)
				sum[r][v] = *(const vec *)(c + (size_t)r * ldc + v * TILE_LANES);
	for (size_t k = 0; k < depth; k++) {
#pragma GCC unroll 16
		for (int r = 0; r < TILE_ROWS; r++) {
			float x = a[(size_t)r * row + k * col];
#pragma GCC unroll 4
			for (int v = 0; v < TILE_VECTORS; v++)
				sum[r][v] += x * *(const vec *)(b + v * TILE_LANES);
		}
		b += TILE_LANES * TILE_VECTORS;
	}
#pragma GCC unroll 16
	for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 4
		for (int v = 0; v < TILE_VECTORS; v++)
			*(vec *)(c + (size_t)r * ldc + v * TILE_LANES) = sum[r][v];
}
#undef TILE_NAME
#undef TILE_ROWS
