#include "launch_recovery.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(launch_recovery, .timeout = 30);

#define MS CLOCK_NS_PER_MS

static struct recoveries all;

static void answer(const char *json)
{
	recovery_answer(&all, json, strlen(json), "gpt");
}

static void answer_count(int count, int step)
{
	char json[256];
	snprintf(json, sizeof(json),
		 "{\"jobs\":[{\"name\":\"other\"},{\"name\":\"gpt\",\"recoveries\":{\"count\":%d,\"last\":{\"step\":%d,"
		 "\"epoch\":1,\"source\":\"memory\",\"ms\":1.5}}}]}",
		 count, step);
	answer(json);
}

Test(launch_recovery, takes_the_restore_that_came_after_it)
{
	struct recovery *r = recovery_open(&all, false, 100 * MS);
	cr_expect(recovery_should_ask(&all, 100 * MS));
	answer_count(3, 30);
	cr_expect_not(r->restored);
	answer_count(3, 30);
	cr_expect_not(r->restored);
	answer_count(4, 40);
	cr_expect(r->restored);
	cr_expect_eq(r->step_restored, 40);
	cr_expect_str_eq(r->source, "memory");
	cr_expect_float_eq(r->restore_ms, 1.5, 1e-9);
	recovery_settle(&all, 150 * MS);
	cr_expect_eq(recovery_current(&all), r, "closed before its ranks were back");
	r->back_ns = 150 * MS;
	recovery_settle(&all, 150 * MS);
	cr_expect_null(recovery_current(&all));
}

Test(launch_recovery, at_the_end_one_more_answer_is_awaited_and_no_other)
{
	cr_expect_not(recovery_awaits(&all));
	recovery_open(&all, false, 100 * MS);
	cr_expect_not(recovery_awaits(&all), "nothing was asked");
	cr_expect(recovery_should_ask(&all, 100 * MS));
	answer_count(3, 30);
	cr_expect_not(recovery_awaits(&all), "it was answered");
	cr_expect_not(recovery_should_ask(&all, 100 * MS));
	recovery_hurry(&all);
	cr_expect(recovery_should_ask(&all, 100 * MS));
	cr_expect(recovery_awaits(&all));
	answer_count(4, 40);
	cr_expect_not(recovery_awaits(&all));
	cr_expect(recovery_current(&all)->restored);
	recovery_open(&all, true, 200 * MS);
	recovery_hurry(&all);
	cr_expect_not(recovery_should_ask(&all, 200 * MS), "of the daemon's own death nothing can be asked");
}

Test(launch_recovery, follows_a_daemon_that_counts_from_zero_again)
{
	struct recovery *r = recovery_open(&all, false, 100 * MS);
	answer_count(7, 10);
	answer_count(0, 0);
	cr_expect_not(r->restored);
	answer_count(1, 20);
	cr_expect(r->restored);
	cr_expect_eq(r->step_restored, 20);
}

Test(launch_recovery, ignores_answers_that_make_no_sense)
{
	struct recovery *r = recovery_open(&all, false, 100 * MS);
	answer("");
	answer("[]");
	answer("{\"jobs\":3}");
	answer("{\"jobs\":[{\"name\":5}]}");
	answer("{\"jobs\":[{\"name\":\"gpt\",\"recoveries\":{\"count\":\"x\"}}]}");
	cr_expect_not(all.asked);
	answer_count(0, 0);
	answer("{\"jobs\":[{\"name\":\"gpt\",\"recoveries\":{\"count\":1,\"last\":{\"step\":-5}}}]}");
	answer("{\"jobs\":[{\"name\":\"gpt\",\"recoveries\":{\"count\":1}}]}");
	cr_expect_not(r->restored);
}

Test(launch_recovery, asks_less_and_less_often_and_not_for_ever)
{
	uint64_t now = 100 * MS;
	unsigned asked = 0;
	struct recovery *r = recovery_open(&all, false, now);
	r->back_ns = now;
	for (; recovery_current(&all); now += MS) {
		asked += recovery_should_ask(&all, now);
		recovery_settle(&all, now);
		cr_assert_lt(now, 60000 * MS);
	}
	cr_expect(asked > 10 && asked < 100, "asked %u times", asked);
	cr_expect_eq(recovery_next(&all), UINT64_MAX);
}

Test(launch_recovery, of_the_daemon_asks_nothing)
{
	struct recovery *r = recovery_open(&all, true, 100 * MS);
	cr_expect_not(recovery_should_ask(&all, 200 * MS));
	r->back_ns = 200 * MS;
	recovery_settle(&all, 200 * MS);
	cr_expect_null(recovery_current(&all));
}

Test(launch_recovery, is_one_until_its_ranks_are_back)
{
	struct recovery *first = recovery_open(&all, false, 100 * MS);
	cr_expect_eq(recovery_open(&all, false, 110 * MS), first);
	cr_expect_eq(all.count, 1);
	first->back_ns = 120 * MS;
	cr_expect_neq(recovery_open(&all, false, 130 * MS), first);
	cr_expect_eq(all.count, 2);
}

Test(launch_recovery, keeps_a_bounded_number_and_counts_all)
{
	for (unsigned i = 0; i < RECOVERIES_MAX + 5; i++) {
		struct recovery *r = recovery_open(&all, false, (100 + i) * MS);
		cr_expect_eq(r != NULL, i < RECOVERIES_MAX);
		if (r)
			r->back_ns = (100 + i) * MS;
	}
	cr_expect_eq(all.count, RECOVERIES_MAX + 5);
	json_t *json = recovery_json(&all);
	cr_expect_eq(json_array_size(json), RECOVERIES_MAX);
	json_decref(json);
}

Test(launch_recovery, tells_durations_and_steps_lost)
{
	struct recovery *r = recovery_open(&all, false, 110 * MS);
	r->fault_ns = 100 * MS;
	r->replaced_ns = 112 * MS;
	r->back_ns = 150 * MS;
	r->step_known = true;
	r->step_before = 43;
	answer_count(0, 0);
	answer_count(1, 40);
	json_t *json = recovery_json(&all), *one = json_array_get(json, 0);
	cr_expect_float_eq(json_real_value(json_object_get(one, "detect_ms")), 10, 1e-9);
	cr_expect_float_eq(json_real_value(json_object_get(one, "decide_ms")), 2, 1e-9);
	cr_expect_float_eq(json_real_value(json_object_get(one, "back_ms")), 50, 1e-9);
	cr_expect_eq(json_integer_value(json_object_get(one, "steps_lost")), 3);
	json_decref(json);
}
