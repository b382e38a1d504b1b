#include "launcher/launch_recovery.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define MS CLOCK_NS_PER_MS

static struct recoveries all;

static void answer(const char *json)
{
	recovery_answer(&all, json, strlen(json), "gpt");
}

/* Of two restores: the older one is of epoch 2. */
static void answer_newest(int epoch, int step)
{
	char json[512];
	snprintf(json, sizeof(json),
		 "{\"jobs\":[{\"name\":\"other\"},{\"name\":\"gpt\",\"recoveries\":{\"count\":2,\"recent\":["
		 "{\"step\":7,\"epoch\":2,\"ok\":true,\"source\":\"storage\",\"restore_ms\":9},"
		 "{\"step\":%d,\"epoch\":%d,\"ok\":true,\"source\":\"memory\",\"restore_ms\":1.5}]}}]}",
		 step, epoch);
	answer(json);
}

static struct recovery *opened(uint32_t epoch)
{
	struct recovery *r = recovery_open(&all, false, 100 * MS);
	r->epoch = epoch;
	return r;
}

Test(launch_recovery, takes_the_restore_that_came_after_it)
{
	struct recovery *r = opened(4);
	cr_expect(recovery_should_ask(&all, 100 * MS));
	answer_newest(3, 30);
	cr_expect_not(r->restored);
	answer_newest(4, 40);
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

Test(launch_recovery, takes_a_restore_that_was_over_before_it_asked)
{
	struct recovery *r = opened(4);
	answer_newest(5, 50);
	cr_expect(r->restored);
	cr_expect_eq(r->step_restored, 50);
}

Test(launch_recovery, takes_what_was_restored_and_not_what_was_refused_since)
{
	struct recovery *r = opened(4);
	answer("{\"jobs\":[{\"name\":\"gpt\",\"recoveries\":{\"recent\":["
	       "{\"step\":30,\"epoch\":4,\"ok\":true,\"source\":\"peer\",\"restore_ms\":2},"
	       "{\"step\":null,\"epoch\":4,\"ok\":true,\"source\":\"none\",\"restore_ms\":1},"
	       "{\"step\":null,\"epoch\":5,\"ok\":false,\"source\":\"none\",\"restore_ms\":1}]}}]}");
	cr_expect(r->restored);
	cr_expect_eq(r->step_restored, 30);
	cr_expect_str_eq(r->source, "peer");
}

Test(launch_recovery, at_the_end_one_more_answer_is_awaited_and_no_other)
{
	cr_expect_not(recovery_awaits(&all));
	opened(4);
	cr_expect_not(recovery_awaits(&all), "nothing was asked");
	cr_expect(recovery_should_ask(&all, 100 * MS));
	recovery_asked(&all);
	answer_newest(3, 30);
	cr_expect_not(recovery_awaits(&all), "it was answered");
	cr_expect_not(recovery_should_ask(&all, 100 * MS));
	recovery_hurry(&all);
	cr_expect(recovery_should_ask(&all, 100 * MS));
	recovery_asked(&all);
	cr_expect(recovery_awaits(&all));
	answer_newest(4, 40);
	cr_expect_not(recovery_awaits(&all));
	cr_expect(recovery_current(&all)->restored);
	recovery_open(&all, true, 200 * MS);
	recovery_hurry(&all);
	cr_expect_not(recovery_should_ask(&all, 200 * MS), "of the daemon's own death nothing can be asked");
}

Test(launch_recovery, ignores_answers_that_make_no_sense)
{
	struct recovery *r = recovery_open(&all, false, 100 * MS);
	answer("");
	answer("[]");
	answer("{\"jobs\":3}");
	answer("{\"jobs\":[{\"name\":5}]}");
	answer("{\"jobs\":[{\"name\":\"gpt\",\"recoveries\":{\"recent\":\"x\"}}]}");
	answer("{\"jobs\":[{\"name\":\"gpt\",\"recoveries\":{\"recent\":{\"step\":5}}}]}");
	answer("{\"jobs\":[{\"name\":\"gpt\",\"recoveries\":{\"recent\":[5]}}]}");
	answer("{\"jobs\":[{\"name\":\"gpt\",\"recoveries\":{\"recent\":[{\"step\":-5,\"ok\":true}]}}]}");
	answer("{\"jobs\":[{\"name\":\"gpt\",\"recoveries\":{\"recent\":[{\"step\":\"5\",\"ok\":true}]}}]}");
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
	r->epoch = 3;
	answer_newest(3, 40);
	json_t *json = recovery_json(&all), *one = json_array_get(json, 0);
	cr_expect_float_eq(json_real_value(json_object_get(one, "detect_ms")), 10, 1e-9);
	cr_expect_float_eq(json_real_value(json_object_get(one, "decide_ms")), 2, 1e-9);
	cr_expect_float_eq(json_real_value(json_object_get(one, "back_ms")), 50, 1e-9);
	cr_expect_eq(json_integer_value(json_object_get(one, "steps_lost")), 3);
	json_decref(json);
}
