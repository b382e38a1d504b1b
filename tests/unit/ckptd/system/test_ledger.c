#include "system/ledger.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

#define G (1ull << 30)

static struct err err;

Test(ledger, what_others_leave_may_be_had)
{
	struct ledger l = {.node = 100 * G, .others = 60 * G};
	cr_assert_eq(ledger_memory(&l, "ann", 40 * G, &err), 0);
	cr_assert_eq(ledger_memory(&l, "ann", 40 * G + 1, &err), -ENOMEM);
	cr_assert_str_eq(err.text,
			 "user ann would hold 40.0 GiB; other users hold 60.0 GiB of the node's 100.0 GiB: raise "
			 "--memory-limit");
}

Test(ledger, a_user_has_a_limit_of_his_own)
{
	struct ledger l = {.node = 100 * G, .user = 10 * G};
	cr_assert_eq(ledger_memory(&l, "ann", 10 * G, &err), 0);
	cr_assert_eq(ledger_memory(&l, "ann", 11 * G, &err), -ENOMEM);
	cr_assert_str_eq(err.text,
			 "user ann would hold 11.0 GiB, their limit is 10.0 GiB: raise memory-limit of [user ann]");
}

Test(ledger, a_ceiling_that_was_lowered_below_what_is_held_leaves_nothing)
{
	struct ledger l = {.node = 10 * G, .others = 60 * G};
	cr_assert_eq(ledger_memory(&l, "ann", 0, &err), 0);
	cr_assert_eq(ledger_memory(&l, "ann", 1, &err), -ENOMEM);
	cr_assert_eq(ledger_memory(&l, "ann", UINT64_MAX, &err), -ENOMEM);
}

Test(ledger, bandwidth_is_shared_equally)
{
	cr_assert_eq(ledger_bandwidth(0, 0, 3), 0);
	cr_assert_eq(ledger_bandwidth(90, 0, 3), 30);
	cr_assert_eq(ledger_bandwidth(90, 0, 0), 90);
	cr_assert_eq(ledger_bandwidth(90, 10, 3), 10);
	cr_assert_eq(ledger_bandwidth(90, 50, 3), 30);
	cr_assert_eq(ledger_bandwidth(0, 50, 3), 50);
	cr_assert_eq(ledger_bandwidth(2, 0, 3), 1, "0 would be no limit at all");
}

Test(ledger, what_comes_too_fast_does_not_pass)
{
	uint64_t paid = 0, now = 3600 * CLOCK_NS_PER_S;
	unsigned n = 0;
	for (int i = 0; i < 1000; i++)
		n += ledger_pace(&paid, now, 20, 100);
	cr_assert_eq(n, 101);
	cr_assert_not(ledger_pace(&paid, now + CLOCK_NS_PER_S / 40, 20, 100));
	cr_assert(ledger_pace(&paid, now + CLOCK_NS_PER_S / 20, 20, 100));
}

Test(ledger, pauses_grow_and_end_growing)
{
	cr_assert_eq(ledger_pause_ns(0), 100 * CLOCK_NS_PER_MS);
	for (unsigned n = 0; n < 100; n++)
		cr_assert(ledger_pause_ns(n) <= ledger_pause_ns(n + 1));
	cr_assert_eq(ledger_pause_ns(UINT32_MAX), 30 * CLOCK_NS_PER_S);
}
