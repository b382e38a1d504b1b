#include "base/interval.h"

#include <math.h>

double interval_young(double cost, double mtbf)
{
	return sqrt(2 * cost * mtbf);
}

double interval_daly(double cost, double mtbf)
{
	if (cost >= 2 * mtbf)
		return mtbf;
	double x = cost / (2 * mtbf);
	return interval_young(cost, mtbf) * (1 + sqrt(x) / 3 + x / 9) - cost;
}

double interval_goodput(double interval, double cost, double restart, double mtbf)
{
	if (isinf(mtbf))
		return interval / (interval + cost);
	return interval / (mtbf * exp(restart / mtbf) * expm1((interval + cost) / mtbf));
}

double interval_goodput_spared(double interval, double cost, double restart, double mtbf)
{
	if (isinf(mtbf))
		return interval / (interval + cost);
	return interval / ((mtbf + restart) * expm1((interval + cost) / mtbf));
}

double interval_whole(double seconds, double unit)
{
	return fmax(ceil(seconds / unit - 1e-9), 1) * unit;
}

struct interval interval_choose(double cost, double mtbf, double most, const struct interval_least *least, unsigned n)
{
	struct interval i = {.seconds = interval_daly(cost, mtbf), .bound = "formula"};
	if (i.seconds > most)
		i = (struct interval){.seconds = most, .bound = "most"};
	for (unsigned k = 0; k < n; k++)
		if (i.seconds < least[k].seconds)
			i = (struct interval){.seconds = least[k].seconds, .bound = least[k].name};
	return i;
}
