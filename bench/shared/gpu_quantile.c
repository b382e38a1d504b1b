#include "gpu_quantile.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double gpu_quantile(double *values, size_t n, double q)
{
	/* Rounded up, but for what the product errs by. */
	size_t rank = (size_t)(q * (double)n + 0.999999);
	qsort(values, n, sizeof(*values), ascending);
	return values[rank ? rank - 1 : 0];
}
