#include "restore/recovery_json.h"

#include "base/clock.h"
#include "cluster/roster.h"
#include "restore/recovery_log.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#define MS CLOCK_NS_PER_MS

static struct roster_node nodes[2] = {{.name = "a"}, {.name = "b"}};
static struct roster roster = {.nodes = nodes, .n = 2, .max = 2};
static struct recovery_part of_ranks[2] = {
	{.rank = 0, .source = WIRE_FROM_MEMORY, .from = RECOVERY_NOWHERE, .fetch_ns = MS, .load_ns = MS},
	{.rank = 3,
	 .source = WIRE_FROM_PEER,
	 .from = 1,
	 .fetch_ns = 2 * MS,
	 .load_ns = 2 * MS,
	 .first_step_ns = 5 * MS,
	 .skipped = "memory: it is gone"},
};

static struct recovery_record record(void)
{
	return (struct recovery_record){.id = {40, 2},
					.wall_ns = 1700000000000000001,
					.epoch = 3,
					.world = 4,
					.source = WIRE_FROM_PEER,
					.cut_from = 3,
					.state = RECOVERY_DONE,
					.seen = true,
					.raised = true,
					.detect_ns = 5 * MS,
					.decide_ns = MS,
					.gather_ns = 20 * MS,
					.choose_ns = 2 * MS,
					.fetch_ns = 9 * MS,
					.load_ns = 2 * MS,
					.first_step_ns = 5 * MS,
					.reason = "rank 3 is lost",
					.passed_over = "step 50 epoch 2: damaged",
					.parts = of_ranks,
					.nparts = 2};
}

static double ms_of(const json_t *j, const char *key)
{
	return json_number_value(json_object_get(j, key));
}

static const char *text_of(const json_t *j, const char *key)
{
	return json_string_value(json_object_get(j, key));
}

Test(recovery_json, the_parts_add_up_to_the_whole)
{
	static const char *const parts[] = {"detect_ms", "decide_ms", "gather_ms",    "choose_ms",
					    "fetch_ms",  "load_ms",   "first_step_ms"};
	struct recovery_record r = record();
	json_t *j = recovery_json(&roster, &r);
	double sum = 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		cr_assert(json_is_real(json_object_get(j, parts[i])), "%s", parts[i]);
		sum += ms_of(j, parts[i]);
	}
	cr_assert_lt(fabs(sum - 44), 1e-9);
	cr_assert_lt(fabs(ms_of(j, "total_ms") - 44), 1e-9);
	cr_assert_lt(fabs(ms_of(j, "restore_ms") - 11), 1e-9);
	cr_assert_eq(json_integer_value(json_object_get(j, "ended_ns")), 1700000000000000001);
	cr_assert_str_eq(text_of(j, "passed_over"), "step 50 epoch 2: damaged");
	json_decref(j);
}

Test(recovery_json, what_is_not_known_is_null)
{
	struct recovery_record r = record();
	r.seen = r.raised = false;
	r.detect_ns = r.load_ns = r.first_step_ns = 0;
	r.state = RECOVERY_CUT;
	json_t *j = recovery_json(&roster, &r);
	static const char *const unknown[] = {"detect_ms", "decide_ms",     "gather_ms",
					      "load_ms",   "first_step_ms", "total_ms"};
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		cr_assert(json_is_null(json_object_get(j, unknown[i])), "%s", unknown[i]);
	cr_assert_str_eq(text_of(j, "state"), "cut-short");
	json_decref(j);
}

Test(recovery_json, each_rank_says_where_its_part_came_from)
{
	struct recovery_record r = record();
	json_t *j = recovery_json(&roster, &r);
	const json_t *list = json_object_get(j, "ranks"), *own = json_array_get(list, 0),
		     *peer = json_array_get(list, 1);
	cr_assert_eq(json_array_size(list), 2u);
	cr_assert(json_is_null(json_object_get(own, "from")) && json_is_null(json_object_get(own, "first_step_ms")));
	cr_assert_str_eq(text_of(own, "source"), "memory");
	cr_assert_eq(json_integer_value(json_object_get(peer, "rank")), 3);
	cr_assert_str_eq(text_of(peer, "source"), "peer");
	cr_assert_str_eq(text_of(peer, "from"), "b");
	cr_assert_str_eq(text_of(peer, "skipped"), "memory: it is gone");
	cr_assert_str_eq(text_of(own, "skipped"), "");
	json_decref(j);
}

Test(recovery_json, the_text_is_the_same_on_one_line)
{
	struct recovery_record r = record();
	char *text = recovery_text(&roster, &r);
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *same = recovery_json(&roster, &r);
	cr_assert(json_equal(j, same));
	cr_assert_null(strchr(text, '\n'));
	json_decref(j);
	json_decref(same);
	free(text);
}

Test(recovery_json, says_of_which_world_a_step_was_cut_anew)
{
	struct recovery_record r = record();
	json_t *j = recovery_json(&roster, &r);
	cr_expect_eq(json_integer_value(json_object_get(j, "cut_from")), 3);
	json_decref(j);
	r.cut_from = 0;
	j = recovery_json(&roster, &r);
	cr_expect(json_is_null(json_object_get(j, "cut_from")));
	json_decref(j);
}
