#include "campaign_folder.h"

#include <stdlib.h>

TestSuite(report_json, .init = setup, .fini = teardown);

static json_t *document(void)
{
	struct report_spread spreads[REPORT_SPREADS];
	cr_assert_eq(report_spreads(make(), spreads), 0);
	json_t *doc = report_document(&report, spreads);
	cr_assert(doc, "each key has its value");
	return doc;
}

static const json_t *of(const json_t *doc, const char *list, size_t i, const char *key)
{
	return json_object_get(json_array_get(json_object_get(doc, list), i), key);
}

Test(report_json, an_empty_campaign_has_a_whole_document)
{
	put_begin(64);
	json_t *doc = document();
	cr_expect_eq(json_array_size(json_object_get(doc, "faults")), 0);
	cr_expect(json_is_null(json_object_get(doc, "invariants")));
	cr_expect(json_is_null(json_object_get(json_object_get(doc, "goodput"), "measured")));
	cr_expect_eq(json_array_size(json_object_get(json_object_get(doc, "timeline"), "ranks")), 64);
	cr_expect_eq(json_array_size(json_object_get(doc, "spreads")), REPORT_SPREADS);
	json_decref(doc);
}

Test(report_json, by_how_much_time_is_compressed_is_told_of_the_file_and_of_the_job)
{
	put("journal", "{\"event\":\"begin\",\"ranks\":2,\"lasted_ms\":60000,\"span_ms\":3000}");
	put_time("started", 0);
	put_start(0, 1, 1000, 1000);
	put_time("stopped", 7000);
	put("journal", "{\"event\":\"end\",\"step\":9}");
	json_t *doc = document(), *is = json_object_get(json_object_get(doc, "campaign"), "compression");
	cr_expect_float_eq(json_real_value(json_object_get(is, "lasted_s")), 60, 1e-9);
	cr_expect_float_eq(json_real_value(json_object_get(is, "planned")), 20, 1e-9);
	cr_expect_float_eq(json_real_value(json_object_get(is, "measured")), 10, 1e-9, "%f",
			   json_real_value(json_object_get(is, "measured")));
	json_decref(doc);
}

Test(report_json, what_repeats_nothing_is_not_compressed)
{
	put_begin(2);
	json_t *doc = document();
	cr_expect(json_is_null(json_object_get(json_object_get(doc, "campaign"), "compression")));
	json_decref(doc);
}

Test(report_json, faults_and_recoveries_point_at_each_other)
{
	put_begin(2);
	put_time("started", 0);
	put_start(0, 1, 500, 100);
	put_fault(0, "kill", 1, "</script><b>\\u0007", 2000);
	put_way_back(0, 2, 2300, 290, 3, "rank 1 is lost: its process 7 has died", "");
	json_t *doc = document();
	cr_expect_eq(json_integer_value(of(doc, "faults", 0, "recovery")), 1);
	cr_expect_eq(json_integer_value(of(doc, "recoveries", 1, "fault")), 0);
	cr_expect_float_eq(json_real_value(of(doc, "faults", 0, "at_ms")), 2000, 1e-3);
	cr_expect_str_eq(json_string_value(of(doc, "causes", 0, "cause")), "</script><b>\a");
	json_decref(doc);
}

Test(report_json, distributions_hold_each_value_once)
{
	put_begin(2);
	put_time("started", 0);
	put_start(0, 1, 500, 100);
	for (unsigned i = 0; i < 10; i++)
		put_way_back(0, 2 + i, 2000 + 1000 * i, 100 * (i + 1), i, "rank 1 is lost: its process 7 has died", "");
	json_t *doc = document(), *bins;
	cr_expect_eq(json_integer_value(of(doc, "spreads", 1, "count")), 10);
	cr_expect_float_eq(json_real_value(of(doc, "spreads", 2, "most")), 9, 1e-9);
	for (size_t s = 1; s <= 2; s++) {
		json_int_t sum = 0;
		size_t i;
		json_array_foreach(of(doc, "spreads", s, "bins"), i, bins) sum += json_integer_value(bins);
		cr_expect_eq(sum, 10);
	}
	json_decref(doc);
}
