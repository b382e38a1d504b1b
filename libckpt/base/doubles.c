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

/* Until values[k] stands where sorting would put it, none above it before it and none below it behind (C. A. R. Hoare: Find, 1961). */
static void place_kth(double *values, ptrdiff_t n, ptrdiff_t k)
{
	for (ptrdiff_t first = 0, last = n - 1; first < last;) {
		double pivot = values[k];
		ptrdiff_t i = first, j = last;
		while (i <= j) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i > j)
				break;
			double x = values[i];
			values[i++] = values[j];
			values[j--] = x;
		}
		first = j < k ? i : first;
		last = k < i ? j : last;
	}
}

struct doubles_middle doubles_middle(double *values, size_t n)
{
	size_t k = (n - 1) / 2;
	place_kth(values, (ptrdiff_t)n, (ptrdiff_t)k);
	double low = values[k];
	if (n % 2)
		return (struct doubles_middle){low, low};
	double high = values[k + 1];
	for (size_t i = k + 2; i < n; i++)
		high = values[i] < high ? values[i] : high;
	return (struct doubles_middle){low, high};
}
