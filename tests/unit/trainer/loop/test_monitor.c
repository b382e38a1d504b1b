#include "loop/monitor.h"

#include <criterion/criterion.h>
#include <math.h>

static struct monitor m;

static void good_steps(uint64_t from, uint64_t to)
{
	for (uint64_t step = from; step <= to; step++)
		cr_assert(monitor_step(&m, step, 2.0));
}

static uint64_t healthy(void)
{
	struct monitor_save save = {0};
	return monitor_healthy(&m, &save) ? save.step : 0;
}

static void safe(uint64_t step)
{
	monitor_safe(&m, (struct monitor_save){step, 1});
}

Test(monitor, a_checkpoint_is_healthy_after_so_many_good_steps)
{
	m = (struct monitor){.need = 3};
	good_steps(1, 10);
	safe(10);
	cr_expect_eq(healthy(), 0);
	good_steps(11, 12);
	cr_expect_eq(healthy(), 0);
	good_steps(13, 13);
	cr_expect_eq(healthy(), 10);
	safe(12);
	cr_expect_eq(healthy(), 10);
	monitor_told(&m, 10);
	cr_expect_eq(healthy(), 0, "it was told");
	good_steps(14, 15);
	cr_expect_eq(healthy(), 12);
}

Test(monitor, a_loss_that_is_no_number_spoils_what_was_saved_shortly_before)
{
	struct monitor_save save;
	m = (struct monitor){.need = 3};
	good_steps(1, 12);
	safe(5);
	safe(10);
	safe(12);
	cr_assert_not(monitor_step(&m, 13, NAN));
	cr_expect(monitor_may_go_back(&m));
	cr_expect_eq(healthy(), 5, "10 had two good steps");
	cr_expect(monitor_suspect(&m, &save) && save.step == 12);
	cr_expect(monitor_suspect(&m, &save) && save.step == 10);
	cr_expect_not(monitor_suspect(&m, &save), "each is told once");
	good_steps(6, 20);
	cr_expect_eq(healthy(), 5, "10 and 12 were of the time before");
	monitor_told(&m, 5);
	cr_expect_eq(healthy(), 0);
	safe(15);
	cr_expect_eq(healthy(), 15);
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

Test(monitor, keeps_the_oldest_ones_until_they_are_healthy)
{
	struct monitor_save save;
	m = (struct monitor){.need = 2 * MONITOR_KEPT};
	for (uint64_t step = 1; step <= 2 * MONITOR_KEPT; step++) {
		good_steps(step, step);
		safe(step);
	}
	cr_expect_eq(m.count, MONITOR_KEPT);
	cr_expect_eq(healthy(), 0);
	good_steps(2 * MONITOR_KEPT + 1, 2 * MONITOR_KEPT + 5);
	for (uint64_t step = 1; step <= 5; step++) {
		cr_expect_eq(healthy(), step, "however many were saved meanwhile, the oldest first");
		monitor_told(&m, step);
	}
	cr_expect_eq(healthy(), 0);
	cr_expect_eq(m.count, MONITOR_KEPT - 5);
	safe(2 * MONITOR_KEPT);
	cr_expect_eq(m.open[m.count - 1].step, (uint64_t)2 * MONITOR_KEPT);

	m = (struct monitor){.need = 1};
	good_steps(1, 40);
	safe(30);
	safe(10);
	safe(20);
	cr_expect(m.open[0].step == 10 && m.open[1].step == 20 && m.open[2].step == 30);
	safe(0);
	monitor_safe(&m, (struct monitor_save){20, 2});
	cr_expect_eq(m.count, 3);
	monitor_told(&m, 30);
	cr_expect_eq(m.count, 0);
	monitor_safe(&m, (struct monitor_save){20, 2});
	cr_expect(monitor_healthy(&m, &save) && save.step == 20 && save.epoch == 2, "saved again in a later epoch");
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
