#include "monitor.h"

#include <criterion/criterion.h>
#include <math.h>

TestSuite(monitor, .timeout = 30);

static struct monitor m;

static void good_steps(uint64_t from, uint64_t to)
{
	for (uint64_t step = from; step <= to; step++)
		cr_assert(monitor_step(&m, step, 2.0));
}

Test(monitor, a_checkpoint_is_healthy_after_so_many_good_steps)
{
	m = (struct monitor){.need = 3};
	good_steps(1, 10);
	monitor_safe(&m, 10);
	cr_expect_eq(monitor_healthy(&m, UINT64_MAX), 0);
	good_steps(11, 12);
	cr_expect_eq(monitor_healthy(&m, UINT64_MAX), 0);
	good_steps(13, 13);
	cr_expect_eq(monitor_healthy(&m, UINT64_MAX), 10);
	monitor_safe(&m, 12);
	cr_expect_eq(monitor_healthy(&m, UINT64_MAX), 10);
	good_steps(14, 15);
	cr_expect_eq(monitor_healthy(&m, UINT64_MAX), 12);
	cr_expect_eq(monitor_healthy(&m, 12), 10);
	cr_expect_eq(monitor_healthy(&m, 10), 0);
}

Test(monitor, a_loss_that_is_no_number_spoils_what_was_saved_shortly_before)
{
	m = (struct monitor){.need = 3};
	good_steps(1, 12);
	monitor_safe(&m, 5);
	monitor_safe(&m, 10);
	monitor_safe(&m, 12);
	cr_assert_not(monitor_step(&m, 13, NAN));
	cr_expect(monitor_may_go_back(&m));
	cr_expect_eq(monitor_healthy(&m, UINT64_MAX), 5, "10 had two good steps");
	good_steps(6, 20);
	cr_expect_eq(monitor_healthy(&m, UINT64_MAX), 5, "10 and 12 were of the time before");
	monitor_safe(&m, 15);
	cr_expect_eq(monitor_healthy(&m, UINT64_MAX), 15);
	cr_assert_not(monitor_step(&m, 21, INFINITY));
}

Test(monitor, the_same_step_may_be_bad_a_few_times_only)
{
	m = (struct monitor){.need = 1};
	for (int i = 1; i < MONITOR_ATTEMPTS; i++) {
		cr_assert_not(monitor_step(&m, 7, NAN));
		cr_expect(monitor_may_go_back(&m));
		good_steps(5, 6);
	}
	cr_assert_not(monitor_step(&m, 7, NAN));
	cr_expect_not(monitor_may_go_back(&m));
	cr_assert_not(monitor_step(&m, 9, NAN));
	cr_expect(monitor_may_go_back(&m), "another step");
}

Test(monitor, knows_the_newest_ones)
{
	m = (struct monitor){.need = 1};
	good_steps(1, 3 * MONITOR_KEPT);
	for (uint64_t step = 1; step <= 2 * MONITOR_KEPT; step++)
		monitor_safe(&m, step);
	monitor_safe(&m, 2 * MONITOR_KEPT); /* again */
	monitor_safe(&m, 1);                /* older than all */
	cr_expect_eq(m.count, MONITOR_KEPT);
	for (int i = 0; i < MONITOR_KEPT; i++)
		cr_expect_eq(m.safe[i], (uint64_t)MONITOR_KEPT + 1 + (uint64_t)i);
	m = (struct monitor){.need = 1};
	monitor_safe(&m, 30);
	monitor_safe(&m, 10);
	monitor_safe(&m, 20);
	cr_expect(m.safe[0] == 10 && m.safe[1] == 20 && m.safe[2] == 30);
}

Test(monitor, without_knowledge_the_schedule_tells)
{
	m = (struct monitor){.need = 3, .every = 10};
	cr_expect_eq(monitor_scheduled(&m, UINT64_MAX), 0, "nothing was bad");
	cr_assert_not(monitor_step(&m, 43, NAN));
	cr_expect_eq(monitor_scheduled(&m, UINT64_MAX), 30, "40 had no three good steps");
	cr_expect_eq(monitor_scheduled(&m, 30), 20);
	cr_expect_eq(monitor_scheduled(&m, 10), 0);
	m.every = 0;
	cr_expect_eq(monitor_scheduled(&m, UINT64_MAX), 0);
}
