/* What becomes of a snapshot that was to be written, by the daemon's document: order.c. */
#include "frame/order.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define AS_CAPTURED "\"to_storage\":false,\"stays\":false,\"error\":null"
#define TO_STORAGE "\"to_storage\":true,\"stays\":false,\"error\":null"
#define STAYS "\"to_storage\":false,\"stays\":true,\"error\":\"superseded\""
#define FAILED "\"to_storage\":false,\"stays\":false,\"error\":\"the disk is broken\""

static json_t *job;

/* Steps 10, 20, … of epoch 1. */
static void is(const char *first, const char *second, const char *third)
{
	const char *const all[] = {first, second, third};
	char text[1000];
	size_t len = (size_t)snprintf(text, sizeof(text), "{\"snapshots\":[");
	for (unsigned i = 0; i < 3 && all[i]; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s{\"step\":%u,\"epoch\":1,%s}", i ? "," : "",
					10 * (i + 1), all[i]);
	snprintf(text + len, sizeof(text) - len, "]}");
	json_decref(job);
	job = json_loads(text, 0, NULL);
	cr_assert_not_null(job, "%s", text);
}

static const char *failure(uint64_t step)
{
	return order_failure(job, (struct step_id){step, 1});
}

static void teardown(void)
{
	json_decref(job);
}

TestSuite(order, .fini = teardown);

Test(order, what_failed_is_not_waited_for)
{
	is(FAILED, TO_STORAGE, NULL);
	cr_expect_str_eq(failure(10), "the disk is broken");
	cr_expect_null(failure(20));
}

Test(order, what_gave_way_to_a_newer_one_is_on_storage_with_that)
{
	is(STAYS, TO_STORAGE, NULL);
	cr_expect_null(failure(10));
	is(STAYS, AS_CAPTURED, TO_STORAGE);
	cr_expect_null(failure(10));
	is(STAYS, STAYS, TO_STORAGE);
	cr_expect_null(failure(10));
}

Test(order, and_fails_with_it)
{
	is(STAYS, FAILED, TO_STORAGE);
	cr_expect_str_eq(failure(10), "the disk is broken");
	is(STAYS, STAYS, FAILED);
	cr_expect_str_eq(failure(10), "the disk is broken");
}

Test(order, what_another_node_has_yet_to_order_is_waited_for)
{
	is(STAYS, NULL, NULL);
	cr_expect(!failure(10) && order_idle(job));
	is(AS_CAPTURED, NULL, NULL);
	cr_expect(!failure(10) && order_idle(job));
	is(TO_STORAGE, AS_CAPTURED, NULL);
	cr_expect(!failure(20) && !order_idle(job), "it waits for the disk");
}
