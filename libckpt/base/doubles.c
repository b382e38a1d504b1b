#include "base/doubles.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void doubles_sort(double *values, size_t n)
{
	if (n)
		qsort(values, n, sizeof(*values), compare);
}
