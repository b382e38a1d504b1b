#include "checkpoint/room.h"
#include "faults/fault_log.h"
#include "job/room.h"
#include "runtime/room.h"

#include <criterion/criterion.h>

static struct fault_log log_of_faults;
static struct runtime runtime;
static struct storage storage;
static struct jobs jobs = {.runtime = &runtime, .storage = &storage};

static struct fault_record *take(void)
{
	struct fault_record *f = fault_log_take(&log_of_faults);
	if (f)
		f->entry = &fault_catalogue[0];
	return f;
}

Test(fault_log, what_has_ended_gives_way_and_what_is_pending_does_not)
{
	for (uint32_t i = 1; i <= FAULT_LOG_MAX; i++)
		cr_assert_eq(take()->number, i);
	cr_assert_null(take(), "all are pending");
	fault_log_end(&jobs, fault_log_find(&log_of_faults, 2), FAULT_FIRED, "it has died");
	fault_log_end(&jobs, fault_log_find(&log_of_faults, 5), FAULT_NOT_FIRED, "it was gone");
	cr_assert_eq(take()->number, FAULT_LOG_MAX + 1);
	cr_expect_null(fault_log_find(&log_of_faults, 2), "the oldest of those that have ended");
	cr_expect_str_eq(fault_log_find(&log_of_faults, 5)->text, "it was gone");
	cr_expect_null(fault_log_find(&log_of_faults, 0));
}

Test(fault_log, is_listed_from_the_oldest_on)
{
	cr_assert_null(fault_log_at(&log_of_faults, 0));
	for (int i = 0; i < 3; i++)
		fault_log_end(&jobs, take(), FAULT_FIRED, NULL);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(fault_log_at(&log_of_faults, i)->number, i + 1);
	cr_assert_null(fault_log_at(&log_of_faults, 3));
}
