#include "base/interval.h"

#include <criterion/criterion.h>
#include <math.h>

/* Daly's worked values (FGCS 22(3), 2006): a save of 5 minutes. In minutes, to the digits that are given. */
static const struct {
	double cost, mtbf, interval, digit;
} worked[] = {{5, 1440, 116.7, 0.05}, {5, 360, 56.7, 0.05}, {5, 15, 9.14, 0.005}};

Test(interval, daly_as_published)
{
	for (size_t i = 0; i < sizeof(worked) / sizeof(worked[0]); i++)
		cr_expect_float_eq(interval_daly(worked[i].cost, worked[i].mtbf), worked[i].interval, worked[i].digit,
				   "mtbf %g: %g", worked[i].mtbf, interval_daly(worked[i].cost, worked[i].mtbf));
	cr_expect_eq(interval_daly(30, 15), 15, "a save that takes twice the time between failures");
	cr_expect_float_eq(interval_young(5, 1440), 120, 1e-9);
}

/* The best interval by the complete model lies where the formula says: other ones leave less. */
Test(interval, what_the_formula_says_is_the_best_there_is)
{
	for (size_t i = 0; i < sizeof(worked) / sizeof(worked[0]); i++) {
		double cost = worked[i].cost, mtbf = worked[i].mtbf, best = interval_daly(cost, mtbf);
		double most = interval_goodput(best, cost, 10, mtbf);
		for (double f = 0.25; f <= 4; f *= 1.25)
			cr_expect_leq(interval_goodput(best * f, cost, 10, mtbf), most + 1e-4, "%g times %g", f, best);
	}
}

Test(interval, goodput_without_failures_is_what_saves_leave)
{
	cr_expect_float_eq(interval_goodput(95, 5, 100, INFINITY), 0.95, 1e-12);
	cr_expect_float_eq(interval_goodput(95, 5, 100, 1e9), 0.95, 1e-6);
}

/* Of each 50 s of training half an interval is lost. */
Test(interval, restarts_that_nothing_disturbs_cost_their_time_and_no_more)
{
	double mtbf = 50, restart = 150, interval = 0.1, work = mtbf - interval / 2;
	cr_expect_float_eq(interval_goodput_spared(interval, 0, restart, mtbf), work / (mtbf + restart), 1e-4);
	cr_expect_lt(interval_goodput(interval, 0, restart, mtbf), 0.06, "others strike during the restart");
	cr_expect_float_eq(interval_goodput_spared(95, 5, 100, INFINITY), 0.95, 1e-12);
}
