#include "ckpt.h"
#include "format/message/fault.h"
#include "libckpt/ranks.h"

#include <criterion/criterion.h>

static void ask(struct arena_fault *fault, enum fault_kind kind, uint32_t ms)
{
	atomic_store(&fault->kind, (uint32_t)kind);
	atomic_store(&fault->ms, ms);
	atomic_fetch_add(&fault->seq, 1);
}

Test(fault, is_taken_once_by_the_rank_that_is_to_play_it)
{
	struct ranks c;
	char name[FAULT_NAME_MAX] = "";
	uint64_t ms = 0;
	cr_assert_eq(ckpt_fault(NULL, name, sizeof(name), &ms), 0);
	ranks_open(&c, 1, NULL);
	cr_assert_eq(ckpt_fault(c.s[0], name, sizeof(name), &ms), 0, "before the join there is nobody to ask");
	ranks_register(&c);
	ranks_join(&c);
	struct arena_fault *fault = &fake_head(c.f, 0)->fault;
	cr_assert_eq(ckpt_fault(c.s[0], name, sizeof(name), &ms), 0);
	ask(fault, FAULT_SLOW, 20);
	cr_assert_eq(ckpt_fault(c.s[0], name, sizeof(name), &ms), 1);
	cr_expect_str_eq(name, "slow");
	cr_expect_eq(ms, 20);
	cr_expect_eq(fault->taken, fault->seq);
	cr_assert_eq(ckpt_fault(c.s[0], name, sizeof(name), &ms), 0, "once");
	ask(fault, 0, 0);
	cr_assert_eq(ckpt_fault(c.s[0], name, sizeof(name), &ms), 0, "it was taken back");
	cr_expect_eq(fault->taken, fault->seq);
	ranks_down(&c);
}
