#include "loop/faults.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct faults faults;
static char why[FAULTS_WHY_SIZE];

Test(faults, reads_what_the_launcher_hands_over)
{
	cr_assert_eq(faults_parse(&faults, "trap@3,slow:20@5,never-ends@7,illegal-address@0", why), 0, "%s", why);
	cr_assert_eq(faults.count, 4);
	cr_expect_eq(faults.list[0].kind, FAULTS_TRAP);
	cr_expect_eq(faults.list[1].kind, FAULTS_SLOW);
	cr_expect_eq(faults.list[1].ms, 20);
	cr_expect_eq(faults.list[2].step, 7);
	cr_expect_eq(faults.list[3].kind, FAULTS_ILLEGAL_ADDRESS);
	cr_assert_eq(faults_parse(&faults, NULL, why), 0);
	cr_expect_eq(faults.count, 0);
	cr_assert_eq(faults_parse(&faults, "", why), 0);
}

Test(faults, refuses_what_it_does_not_know)
{
	static const char *const wrong[] = {"murder@3",
					    "trap",
					    "trap@",
					    "trap@x",
					    "trap@3,",
					    "slow@3",
					    "slow:@3",
					    "slow:0@3",
					    "nan:20@3",
					    "trap@3 nan@4",
					    ",trap@3",
					    "trap@3,,nan@4",
					    "trap@1234567890123456789"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect_eq(faults_parse(&faults, wrong[i], why), -EINVAL, "%s", wrong[i]);
		cr_expect(strstr(why, "CKPT_PLAY"), "%s: %s", wrong[i], why);
	}
}

Test(faults, come_while_the_loop_runs_and_those_that_are_over_make_room)
{
	cr_assert_eq(faults_parse(&faults, "", why), 0);
	for (uint64_t step = 0; step < 2 * FAULTS_LIST_MAX; step++) {
		cr_assert_eq(faults_add(&faults, "exit-early", 0, step), 0, "step %lu", (unsigned long)step);
		cr_assert(faults_take(&faults, FAULTS_EXIT_EARLY, step));
	}
	cr_assert_eq(faults_add(&faults, "slow", 20, 7), 0);
	cr_expect_eq(faults_slow_ms(&faults, 8), 20);
	cr_expect_eq(faults_add(&faults, "slow", 0, 7), -EINVAL);
	cr_expect_eq(faults_add(&faults, "nan", 5, 7), -EINVAL);
	cr_expect_eq(faults_add(&faults, "kill", 0, 7), -EINVAL);
	cr_expect_eq(faults_add(&faults, "trap@3", 0, 7), -EINVAL);
	for (size_t i = 1; i < FAULTS_LIST_MAX; i++)
		cr_assert_eq(faults_add(&faults, "nan", 0, 1000), 0);
	cr_expect_eq(faults_add(&faults, "nan", 0, 1000), 0, "the slow one is over by then");
	cr_expect_eq(faults_add(&faults, "nan", 0, 1000), -EINVAL, "the list is bounded");
}

Test(faults, happen_once_from_their_step_on)
{
	cr_assert_eq(faults_parse(&faults, "nan@5,nan@9,trap@2", why), 0);
	cr_expect_not(faults_take(&faults, FAULTS_NAN, 4));
	cr_expect(faults_take(&faults, FAULTS_NAN, 7));
	cr_expect_not(faults_take(&faults, FAULTS_NAN, 7));
	cr_expect_not(faults_take(&faults, FAULTS_NAN, 8));
	cr_expect(faults_take(&faults, FAULTS_NAN, 9));
	cr_expect(faults_take(&faults, FAULTS_TRAP, 2));
	cr_expect_not(faults_take(&faults, FAULTS_FLIP, 100));
}

Test(faults, slowness_lasts_for_its_steps)
{
	cr_assert_eq(faults_parse(&faults, "slow:20@5", why), 0);
	cr_expect_eq(faults_slow_ms(&faults, 4), 0);
	cr_expect_eq(faults_slow_ms(&faults, 5), 20);
	cr_expect_eq(faults_slow_ms(&faults, 5 + FAULTS_SLOW_STEPS - 1), 20);
	cr_expect_eq(faults_slow_ms(&faults, 5 + FAULTS_SLOW_STEPS), 0);
	cr_expect_not(faults_spike(&faults, 5));
}

Test(faults, spike_lasts_for_its_steps_also_when_they_come_again)
{
	cr_assert_eq(faults_parse(&faults, "loss-spike@5", why), 0);
	for (int round = 0; round < 2; round++) {
		cr_expect_not(faults_spike(&faults, 4));
		cr_expect(faults_spike(&faults, 5));
		cr_expect(faults_spike(&faults, 5 + FAULTS_SPIKE_STEPS - 1));
		cr_expect_not(faults_spike(&faults, 5 + FAULTS_SPIKE_STEPS));
	}
	cr_expect_eq(faults_slow_ms(&faults, 5), 0);
}
