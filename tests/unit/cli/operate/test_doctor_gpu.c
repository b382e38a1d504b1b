#include "operate/doctor.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct check judged(struct gpu_seen seen, unsigned toolkit)
{
	struct doctor d = {.n = 0};
	doctor_gpu_judge(&d, &seen, toolkit);
	cr_assert_eq(d.n, 1);
	cr_assert_str_eq(d.checks[0].name, "gpu");
	return d.checks[0];
}

static struct gpu_seen seen(unsigned cuda, const char *driver)
{
	struct gpu_seen s = {.device = true, .usable = true, .cuda = cuda};
	snprintf(s.driver, sizeof(s.driver), "%s", driver);
	return s;
}

Test(doctor_gpu, a_driver_of_the_same_major_version_is_new_enough)
{
	cr_assert_eq(judged(seen(13000, "580.65.06"), 13020).result, RESULT_FINE);
	cr_assert_eq(judged(seen(12000, "525.60.13"), 12080).result, RESULT_FINE);
	cr_assert_eq(judged(seen(13000, "580.65.06"), 12080).result, RESULT_FINE);
	cr_assert_eq(judged(seen(14000, "700.1"), 14010).result, RESULT_FINE, "also of a toolkit that is not known");
}

Test(doctor_gpu, an_older_driver_is_named_with_the_one_that_is_needed)
{
	struct check c = judged(seen(12080, "570.172.08"), 13000);
	cr_assert_eq(c.result, RESULT_DEGRADED);
	cr_assert_str_eq(c.found,
			 "driver 570.172.08 for CUDA 12.8; this build has CUDA 13.0, and needs driver 580 or newer");
	cr_assert(strstr(c.costs, "cannot join") && strstr(c.remedy, "driver 580") && strstr(c.remedy, "525"));
	c = judged(seen(11080, ""), 12080);
	cr_assert_eq(c.result, RESULT_DEGRADED);
	cr_assert(strstr(c.found, "driver of unknown version for CUDA 11.8") && strstr(c.found, "needs driver 525"));
	cr_assert(strstr(c.remedy, "525") && strstr(c.remedy, "570"));
	cr_assert_eq(judged(seen(13000, "580.1"), 14000).result, RESULT_DEGRADED,
		     "also of a toolkit that is not known");
}

/* As in a container that was given the libraries alone. */
Test(doctor_gpu, without_the_device_an_older_driver_is_named_too)
{
	struct gpu_seen s = seen(12020, "535.1");
	s.device = s.usable = false;
	cr_assert_eq(judged(s, 13000).result, RESULT_DEGRADED);
	struct check c = judged(s, 12080);
	cr_assert_eq(c.result, RESULT_NOTE);
	cr_assert(strstr(c.found, "/dev/nvidiactl is not there"));
}

Test(doctor_gpu, what_is_missing_is_named)
{
	struct gpu_seen none = {.device = false}, closed = {.device = true, .cuda = 13000},
			unloaded = {.device = true, .usable = true};
	struct check c = judged(none, 13000);
	cr_assert(c.result == RESULT_NOTE && strstr(c.found, "/dev/nvidiactl is not there"));
	c = judged(closed, 13000);
	cr_assert(c.result == RESULT_DEGRADED && strstr(c.found, "may not be opened"));
	c = judged(unloaded, 13000);
	cr_assert(c.result == RESULT_DEGRADED && strstr(c.found, "libcuda.so.1 does not load"));
	c = judged(seen(13000, "580.1"), 0);
	cr_assert(c.result == RESULT_DEGRADED && strstr(c.found, "this build has no CUDA"));
}
