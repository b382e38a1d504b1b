#include "plan_on_record.h"

#include <criterion/criterion.h>

void plan_on_record_setup(void)
{
	membership_maker_setup();
	fake_host.slow = true;
}

void plan_on_record_teardown(void)
{
	begun_free(&fake_host.begun);
	membership_maker_teardown();
}

uint32_t plan_now(void)
{
	return membership_plan(&membership_daemon.control, "gpt");
}

void recorded(uint32_t number)
{
	membership_recorded(&membership_daemon.control, "gpt", number);
	read_orders();
}

void put_on_record(void)
{
	struct plan_record *plan = &fake_host.begun.plan;
	plan->number = 7;
	for (uint32_t r = 0; r < 4; r++)
		cr_assert_eq(plan_record_add(plan, r < 2 ? "n0" : "n2", r < 2 ? r : r + 2), 0);
}

struct peer_capacity by_plan(uint32_t plan, uint32_t world, uint32_t first)
{
	return (struct peer_capacity){.want = WANT,
				      .least = LEAST,
				      .processes = EACH,
				      .plan = plan,
				      .world = world,
				      .n = EACH,
				      .ranks = {first, first + 1}};
}

void says(uint32_t node, uint32_t plan, uint32_t world, uint32_t first)
{
	struct peer_capacity m = by_plan(plan, world, first);
	report(node, &m);
}

void says_idle(uint32_t node, uint32_t plan)
{
	report(node, &(struct peer_capacity){.want = WANT, .least = LEAST, .processes = EACH, .plan = plan});
}
