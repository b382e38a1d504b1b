#include "format/files/plan_record.h"

#include "format/document/json_out.h"

#include <criterion/criterion.h>
#include <string.h>

static int read_text(const char *text, size_t len, struct plan_record *plan, struct err *err)
{
	struct jin in;
	*plan = (struct plan_record){0};
	jin_open(&in, text, len, "test", err);
	plan_record_read(&in, plan);
	return jin_close(&in);
}

static void expect_text(const struct plan_record *plan, const char *due)
{
	struct wbuf text = {0};
	plan_record_put(&text, plan);
	cr_assert_eq(wbuf_finish(&text), 0);
	cr_expect(text.len == strlen(due) && !memcmp(text.data, due, text.len), "%.*s", (int)text.len,
		  (const char *)text.data);
	wbuf_free(&text);
}

static void add(struct plan_record *plan, const char *node, uint32_t was)
{
	cr_assert_eq(plan_record_add(plan, node, was), 0);
}

/* Four ranks become six: n1 keeps its two, which were the last; n0 has a new process beside its old ones. */
static struct plan_record six(void)
{
	struct plan_record plan = {.number = 7};
	add(&plan, "n0", 0);
	add(&plan, "n0", 1);
	add(&plan, "n0", PLAN_NEW);
	add(&plan, "n0", PLAN_NEW);
	add(&plan, "n1", 4);
	add(&plan, "n1", 5);
	return plan;
}

#define SIX "{\"number\":7,\"world\":6,\"ranks\":[[\"n0\",2,0],[\"n0\",2],[\"n1\",2,4]]}"

Test(plan_record, neighbouring_ranks_of_a_node_are_one_piece)
{
	struct plan_record plan = six();
	expect_text(&plan, SIX);
	plan_record_free(&plan);
}

Test(plan_record, a_process_that_changes_its_order_is_a_piece_of_its_own)
{
	struct plan_record plan = {.number = 1};
	add(&plan, "n0", 1);
	add(&plan, "n0", 0);
	expect_text(&plan, "{\"number\":1,\"world\":2,\"ranks\":[[\"n0\",1,1],[\"n0\",1,0]]}");
	plan_record_free(&plan);
}

Test(plan_record, what_was_written_is_read)
{
	struct plan_record plan, copy;
	struct err err = {""};
	cr_assert_eq(read_text(SIX, strlen(SIX), &plan, &err), 0, "%s", err.text);
	expect_text(&plan, SIX);
	cr_assert_eq(plan_record_copy(&plan, &copy), 0);
	plan_record_free(&plan);
	expect_text(&copy, SIX);
	plan_record_free(&copy);
}

Test(plan_record, in_a_world_of_none_nobody_has_a_rank)
{
	static const char text[] = "{\"number\":8,\"world\":0,\"ranks\":[]}";
	struct plan_record plan, copy;
	struct err err = {""};
	cr_assert_eq(read_text(text, strlen(text), &plan, &err), 0, "%s", err.text);
	cr_assert_eq(plan_record_copy(&plan, &copy), 0);
	cr_expect(copy.number == 8 && !copy.world && !copy.nruns);
}

Test(plan_record, what_no_coordinator_can_have_planned_is_refused)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{"{\"number\":1,\"world\":2}", "ranks"},
		{"{\"number\":0,\"world\":0,\"ranks\":[]}", "no plan"},
		{"{\"number\":2147483648,\"world\":0,\"ranks\":[]}", "number"},
		{"{\"number\":1,\"world\":262145,\"ranks\":[]}", "world"},
		{"{\"number\":1,\"world\":3,\"ranks\":[[\"n0\",2]]}", "each of 3 ranks"},
		{"{\"number\":1,\"world\":1,\"ranks\":[[\"n0\",2]]}", "each of 1 ranks"},
		{"{\"number\":1,\"world\":0,\"ranks\":[[\"n0\",0]]}", "no rank"},
		{"{\"number\":1,\"world\":1,\"ranks\":[[\"n/0\",1]]}", "node"},
		{"{\"number\":1,\"world\":1,\"ranks\":[[\"\",1]]}", "node"},
		{"{\"number\":1,\"world\":1,\"ranks\":[[]]}", ""},
		{"{\"number\":1,\"world\":1,\"ranks\":[[\"n0\"]]}", ""},
		{"{\"number\":1,\"world\":1,\"ranks\":[[\"n0\",1,0,0]]}", "is no node"},
		{"{\"number\":1,\"world\":1,\"ranks\":[[\"n0\",1,262144]]}", ""},
		{"{\"number\":1,\"world\":2,\"ranks\":[[\"n0\",2,262143]]}", "is no node"},
		{"{\"number\":1,\"world\":4,\"ranks\":[[\"n0\",2,0],[\"n1\",2,1]]}", "no plan"},
		{"{\"number\":1,\"world\":262144,\"ranks\":[[\"n0\",262144],[\"n0\",262144]]}", "no plan"},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct plan_record plan;
		struct err err = {""};
		cr_expect_eq(read_text(bad[i].text, strlen(bad[i].text), &plan, &err), -EBADMSG, "%s", bad[i].text);
		cr_expect(strstr(err.text, bad[i].why), "%s: %s", bad[i].text, err.text);
		plan_record_free(&plan);
	}
}
