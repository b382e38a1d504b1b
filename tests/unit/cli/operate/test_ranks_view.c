/* What ckpt ranks says of a rank, by the daemon's document: ranks_view.c. */
#include "operate/ranks_view.h"

#include <criterion/criterion.h>
#include <math.h>

static const char *doing(const char *text)
{
	static json_t *rank;
	json_decref(rank);
	rank = json_loads(text, 0, NULL);
	cr_assert(rank, "%s", text);
	return ranks_doing(rank);
}

#define AT_WORK "\"state\":\"joined\",\"hung\":false,\"waits\":null,\"beat_age_ms\":3,"
#define COLLECTIVE(in) "\"collective\":{\"op\":\"barrier\",\"number\":3,\"bytes\":0,\"in\":" in ",\"entered_ms\":2.5}"

Test(ranks_view, a_rank_that_trains_does_what_its_phase_says)
{
	cr_expect_str_eq(doing("{" AT_WORK "\"phase\":\"forward\",\"collective\":null}"), "computing");
	cr_expect_str_eq(doing("{" AT_WORK "\"phase\":\"save\",\"collective\":null}"), "saving");
	cr_expect_str_eq(doing("{" AT_WORK "\"phase\":\"restore\",\"collective\":null}"), "restoring");
	cr_expect_str_eq(doing("{" AT_WORK "\"phase\":\"idle\",\"collective\":null}"), "idle");
	cr_expect_str_eq(doing("{" AT_WORK "\"phase\":\"collective\",\"collective\":null}"), "collective");
}

/* It says the phase before it enters: one that never enters is not in it. */
Test(ranks_view, its_flight_record_is_believed_before_its_phase)
{
	cr_expect_str_eq(doing("{" AT_WORK "\"phase\":\"collective\"," COLLECTIVE("false") "}"), "computing");
	cr_expect_str_eq(doing("{" AT_WORK "\"phase\":\"backward\"," COLLECTIVE("true") "}"), "collective");
}

Test(ranks_view, a_rank_that_does_not_train_says_why)
{
	cr_expect_str_eq(doing("{\"state\":\"absent\",\"hung\":false,\"waits\":null," COLLECTIVE("true") "}"), "absent",
			 "what it was in when it died is no matter");
	cr_expect_str_eq(doing("{\"state\":\"registered\",\"hung\":false,\"waits\":\"join\"}"), "waiting");
	cr_expect_str_eq(doing("{\"state\":\"joined\",\"hung\":true,\"waits\":null,\"phase\":\"data\"}"), "hangs");
	cr_expect_str_eq(doing("{\"state\":\"joined\",\"hung\":false,\"waits\":null,\"phase\":\"data\","
			       "\"beat_age_ms\":null,\"collective\":null}"),
			 "silent");
	cr_expect_str_eq(doing("{\"state\":\"left\",\"hung\":false,\"waits\":null}"), "left");
	cr_expect_str_eq(doing("{}"), "unknown", "of a daemon that does not tell");
}

static double deviation(const json_t *view, size_t rank)
{
	const json_t *of = json_array_get(json_object_get(view, "ranks"), rank);
	const json_t *deviation = json_object_get(of, "deviation");
	return json_is_null(deviation) ? NAN : json_number_value(deviation);
}

Test(ranks_view, a_deviation_is_from_the_median_of_the_job)
{
	json_t *job =
		json_loads("{\"name\":\"gpt\",\"state\":\"running\",\"world\":4,\"epoch\":1,\"ranks\":["
			   "{\"rank\":0,\"steps\":{\"median_ms\":10.0}},{\"rank\":1,\"steps\":{\"median_ms\":15.0}},"
			   "{\"rank\":2,\"steps\":{\"median_ms\":null}},{\"rank\":3,\"steps\":{\"median_ms\":8.0}},"
			   "{\"rank\":4}]}",
			   0, NULL);
	json_t *view = ranks_job(job);
	cr_expect_float_eq(json_number_value(json_object_get(view, "step_ms")), 10, 1e-9);
	cr_expect_float_eq(deviation(view, 0), 0, 1e-9);
	cr_expect_float_eq(deviation(view, 1), 0.5, 1e-9);
	cr_expect(isnan(deviation(view, 2)) && isnan(deviation(view, 4)), "steps that are not known");
	cr_expect_float_eq(deviation(view, 3), -0.2, 1e-9);
	json_decref(view);
	json_decref(job);
}

Test(ranks_view, a_job_without_steps_has_no_median)
{
	json_t *job = json_loads("{\"name\":\"gpt\",\"ranks\":[{\"rank\":0}]}", 0, NULL), *view = ranks_job(job);
	cr_expect(json_is_null(json_object_get(view, "step_ms")));
	cr_expect(json_is_null(json_object_get(view, "epoch")));
	cr_expect(isnan(deviation(view, 0)));
	json_decref(view);
	json_decref(job);
}
