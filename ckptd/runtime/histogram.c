#include "runtime/histogram.h"

#include "base/clock.h"

uint64_t histogram_bound_ns(unsigned i)
{
	static const uint64_t tenths[] = {10, 25, 50};
	uint64_t bound = CLOCK_NS_PER_MS / 10;
	for (unsigned decade = 0; decade < i / 3; decade++)
		bound *= 10;
	return bound * tenths[i % 3];
}

void histogram_add(struct histogram *h, uint64_t ns, uint64_t times)
{
	unsigned i = 0;
	while (i < HISTOGRAM_BOUNDS && ns > histogram_bound_ns(i))
		i++;
	h->buckets[i] += times;
	h->count += times;
	h->sum_ns += ns * times;
}

uint64_t histogram_quantile_ns(const struct histogram *h, double q)
{
	double wanted = q * (double)h->count, before = 0;
	if (!h->count)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
		double here = (double)h->buckets[i];
		if (here > 0 && before + here >= wanted) {
			uint64_t low = i ? histogram_bound_ns(i - 1) : 0;
			double within = wanted > before ? (wanted - before) / here : 0;
			return low + (uint64_t)(within * (double)(histogram_bound_ns(i) - low));
		}
		before += here;
	}
	return histogram_bound_ns(HISTOGRAM_BOUNDS - 1);
}
