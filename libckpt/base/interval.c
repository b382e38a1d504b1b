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
