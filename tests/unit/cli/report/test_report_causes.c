#include "campaign_folder.h"

TestSuite(report_causes, .init = setup, .fini = teardown);

Test(report_causes, faults_are_counted_by_cause_and_by_kind_where_there_is_none)
{
	put_begin(2);
	put_time("started", 0);
	put_start(0, 1, 500, 100);
	for (unsigned i = 0; i < 3; i++) {
		put_fault(i, "kill", 1, i == 1 ? "" : "Faulty GPU", 2000 + 1000 * i);
		put_way_back(0, 2 + i, 2000 + 1000 * i + 100 * (i + 1), 90 * (i + 1), 1 + i,
			     "rank 1 is lost: its process 7 has died", "");
	}
	put_fault(3, "abort", 1, "", 9000);
	const struct report *r = make();
	cr_assert_eq(r->causes.n, 3);
	const struct report_cause *c = &r->causes.at[0];
	cr_expect_str_eq(c->name, "Faulty GPU");
	cr_expect_eq(c->faults, 2);
	cr_expect_eq(c->recovered, 2);
	cr_expect_eq(c->steps_lost, 1 + 3);
	cr_expect_float_eq(c->found_ms[0], 30, 1e-9, "of two, the later");
	cr_expect_float_eq(c->back_ms[1], 300, 1e-9);
	cr_expect_float_eq(c->lost_s, 0.1 + 0.28, 1e-9, "from the last heartbeat, where that was after the fault");
	cr_expect_str_eq(r->causes.at[1].name, "abort");
	cr_expect_eq(r->causes.at[1].recovered, 0);
	cr_expect(isnan(r->causes.at[1].back_ms[0]));
	cr_expect_str_eq(r->causes.at[2].name, "kill");
}

Test(report_causes, twenty_thousand_causes_are_not_looked_through_for_each)
{
	char name[16];
	put_begin(2);
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "cause %05u", (i * 7919) % 20000);
		put_fault(i, "flip-file", 1, name, i);
	}
	cr_assert_eq(make()->causes.n, 20000);
	for (size_t i = 1; i < report.causes.n; i++)
		cr_assert_lt(strcmp(report.causes.at[i - 1].name, report.causes.at[i].name), 0);
}
