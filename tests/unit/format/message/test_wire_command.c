#include "base/bytes.h"
#include "format/message/wire.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 0, or what decoding says. What is decoded is encoded to the same bytes; every other length is refused. */
static int carry(const struct wire_command *m)
{
	AUTO_WBUF struct wbuf w = {0}, again = {0};
	struct err err = {""};
	struct wire_command back;
	cr_assert_eq(wire_command_encode(m, &w), 0);
	int rc = wire_command_decode(w.data, w.len, &back, &err);
	cr_assert_eq(!*err.text, !rc);
	if (rc)
		return rc;
	cr_assert_eq(wire_command_encode(&back, &again), 0);
	cr_assert(w.len == again.len && !memcmp(w.data, again.data, w.len));
	for (size_t len = 0; len <= w.len + 1; len++) {
		uint8_t *body = calloc(1, len + 1);
		memcpy(body, w.data, len < w.len ? len : w.len);
		cr_assert_eq(wire_command_decode(body, len, &back, &err), len == w.len ? 0 : -EBADMSG, "length %zu",
			     len);
		free(body);
	}
	return 0;
}

Test(wire_command, a_fault_has_a_kind_of_the_catalogue_and_a_time_where_it_wants_one)
{
	struct wire_command c = {
		.kind = COMMAND_FAULT, .job = "gpt", .fault = {.kind = FAULT_STOP, .rank = 3, .for_ms = 500}};
	cr_expect_eq(carry(&c), 0);
	c.fault.kind = FAULT_KILL;
	cr_expect_eq(carry(&c), -EBADMSG);
	c.fault.for_ms = 0;
	cr_expect_eq(carry(&c), 0);
	c.fault.kind = FAULT_SLOW;
	cr_expect_eq(carry(&c), -EBADMSG);
	c.fault.kind = FAULT_KIND_END;
	cr_expect_eq(carry(&c), -EBADMSG);
	c.fault = (struct wire_fault){.kind = FAULT_SLOW, .for_ms = FAULT_TIME_MAX_MS + 1ull};
	cr_expect_eq(carry(&c), -EBADMSG);
}

Test(wire_command, there_are_no_other_kinds)
{
	struct wire_command c = {.kind = COMMAND_ROLLBACK + 1};
	cr_expect_eq(carry(&c), -EBADMSG);
	c.kind = 0;
	cr_expect_eq(carry(&c), -EBADMSG);
}

Test(wire_command, the_outcome_of_a_fault_names_its_number)
{
	struct wire_command c = {.kind = COMMAND_FAULTED,
				 .fault = {.number = 7, .outcome = FAULT_FIRED, .text = "it has died"}};
	cr_expect_eq(carry(&c), 0);
	c.fault.outcome = FAULT_OUTCOME_END;
	cr_expect_eq(carry(&c), -EBADMSG);
	c.fault = (struct wire_fault){0};
	cr_expect_eq(carry(&c), -EBADMSG);
}

Test(wire_command, what_is_no_fault_carries_none)
{
	AUTO_WBUF struct wbuf plain = {0}, same = {0};
	struct wire_command c = {.kind = COMMAND_HALT, .job = "gpt"};
	cr_assert_eq(wire_command_encode(&c, &plain), 0);
	c.fault = (struct wire_fault){.kind = FAULT_KILL, .rank = 3};
	cr_assert_eq(wire_command_encode(&c, &same), 0);
	cr_expect_eq(plain.len, same.len);
}

/* What becomes of it on the other side. */
static int sent(const struct wire_command *c, struct wire_command *out)
{
	AUTO_WBUF struct wbuf w = {0};
	struct err err;
	cr_assert_eq(wire_command_encode(c, &w), 0);
	return wire_command_decode(w.data, w.len, out, &err);
}

Test(wire_command, a_removal_names_a_node_and_no_job)
{
	struct wire_command c = {.kind = COMMAND_REMOVE, .node = "n1"}, out;
	cr_assert_eq(sent(&c, &out), 0);
	cr_assert(out.kind == COMMAND_REMOVE && !*out.job);
	cr_assert_str_eq(out.node, "n1");
	snprintf(c.job, sizeof(c.job), "gpt");
	cr_assert_eq(sent(&c, &out), -EBADMSG);
	c = (struct wire_command){.kind = COMMAND_REMOVE};
	cr_assert_eq(sent(&c, &out), -EBADMSG);
	c = (struct wire_command){.kind = COMMAND_CLEAR, .node = "n1"};
	cr_assert_eq(sent(&c, &out), 0);
	c = (struct wire_command){.kind = COMMAND_CLEAR};
	cr_assert_eq(sent(&c, &out), -EBADMSG);
}

Test(wire_command, a_rollback_goes_to_a_step_that_can_have_been_saved)
{
	struct wire_command c = {
		.kind = COMMAND_ROLLBACK, .job = "gpt", .back = {.to = {600, 5}, .reason = "the loss is NaN"}};
	cr_expect_eq(carry(&c), 0);
	c.back.to = (struct step_id){STEP_MAX, EPOCH_MAX};
	cr_expect_eq(carry(&c), 0);
	c.back.to.step = STEP_NEWEST;
	cr_expect_eq(carry(&c), -EBADMSG);
	c.back.to = (struct step_id){600, 0};
	cr_expect_eq(carry(&c), -EBADMSG);
	c.back.to.epoch = EPOCH_MAX + 1;
	cr_expect_eq(carry(&c), -EBADMSG);
}

Test(wire_command, its_answer_is_of_no_job)
{
	AUTO_WBUF struct wbuf w = {0};
	struct wire_answer a = {.text = "it is gone"}, out;
	struct err err;
	cr_assert_eq(wire_answer_encode(&a, &w), 0);
	cr_assert_eq(wire_answer_decode(w.data, w.len, &out, &err), 0, "%s", err.text);
	cr_assert(!*out.job);
	cr_assert_str_eq(out.text, a.text);
}
