/* What this node is told by a coordinator of its own (control/host/outbox.h). */
#include "control/host/outbox.h"

#include "ckptd/job/participation_maker.h"
#include "control/host/coordinator_host.h"
#include "format/message/peer_coord.h"
#include "job/participation.h"

#include <criterion/criterion.h>

TestSuite(outbox, .init = participation_maker_setup, .fini = participation_maker_teardown);

static void put_plan(uint32_t number)
{
	outbox_put(&here.control, true,
		   &(struct peer_order){.type = PEER_INVALIDATE_PLAN, .job = "main", .number = number});
}

Test(outbox, nothing_is_obeyed_before_the_input_has_ended)
{
	put_plan(3);
	cr_expect(!job.resize.apart);
	outbox_deliver(&here.control);
	cr_expect(job.resize.apart);
}

Test(outbox, each_order_is_obeyed_once)
{
	put_plan(3);
	outbox_deliver(&here.control);
	job.resize.apart = false;
	outbox_deliver(&here.control);
	cr_expect(!job.resize.apart);
}

Test(outbox, what_comes_of_an_order_is_obeyed_as_well)
{
	take_part();
	other(PEER_NODE_JOIN);
	cr_expect(list_empty(&here.control.outbox.waiting));
}

Test(outbox, who_witnesses_an_epoch_hears_at_once_what_comes_of_it)
{
	put_plan(3);
	host_knows(&here.control, "main", WITNESS_RANK, 1);
	cr_expect(job.resize.apart);
}

Test(outbox, of_a_job_that_has_ended_nothing_is_heard)
{
	put_plan(3);
	list_remove(&job.link);
	outbox_deliver(&here.control);
	cr_expect(!job.resize.apart && list_empty(&here.control.outbox.waiting));
	list_push(&here.jobs.list, &job.link);
}

Test(outbox, its_room_is_used_again_and_does_not_grow)
{
	cr_assert_eq(outbox_reserve(&here.control.outbox), 0);
	unsigned all = here.control.outbox.nspare;
	cr_assert_gt(all, 8u, "more than one input brings about");
	for (unsigned n = 1; n <= all + 5; n++) {
		put_plan(n);
		cr_expect_eq(here.control.outbox.nspare, n < all ? all - n : 0);
	}
	outbox_deliver(&here.control);
	cr_expect_eq(here.control.outbox.nspare, all);
	cr_expect(list_empty(&here.control.outbox.waiting));
}

Test(outbox, what_is_left_when_the_daemon_ends_is_freed)
{
	put_plan(3);
	outbox_free(&here.control.outbox);
	cr_expect(list_empty(&here.control.outbox.waiting));
}
