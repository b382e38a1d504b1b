/* Changes of the world that can wait for a save: growth, and nodes that are let go (control/membership/membership_pause.c, control/membership/membership_drain.c). */
#include "membership_maker.h"

#include "base/clock.h"
#include "config/file.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(membership_changes, .init = membership_maker_setup, .fini = membership_maker_teardown);

/* ---- growth ----------------------------------------------------------------------------------------------------- */

Test(membership_changes, a_node_that_comes_back_makes_it_grow_when_a_save_is_safe)
{
	shrink();
	offer(1, EACH);
	tick();
	cr_expect(!nodes[0].pause, "nobody has entered the new world");
	fake_host.view.entered = fake_host.view.epoch;
	tick();
	cr_expect(nodes[0].pause && nodes[2].pause && !nodes[1].pause);
	paused(0, 7);
	shown(8, fake_host.view.epoch, LEVEL_REPLICATED);
	cr_expect_eq(fake_host.holds, 1, "not all have said what they have begun");
	paused(2, 9);
	cr_expect(nodes[0].after == 9 && nodes[2].after == 9);
	shown(9, fake_host.view.epoch, LEVEL_REPLICATED);
	cr_expect_eq(fake_host.holds, 1, "in its fence somebody did not wait");
	shown(10, fake_host.view.epoch - 1, LEVEL_REPLICATED);
	cr_expect_eq(fake_host.holds, 1, "a save of another epoch");
	shown(10, fake_host.view.epoch, LEVEL_CAPTURED);
	cr_expect_eq(fake_host.holds, 1, "without a store it is not safe yet");
	shown(10, fake_host.view.epoch, LEVEL_REPLICATED);
	cr_expect(fake_host.holds == 2 && nodes[0].quiesce && nodes[2].quiesce);
	quiesced(0, 0);
	quiesced(2, 0);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 3);
	EXPECT_RANKS(1, 3, 6, 4, 5);
}

Test(membership_changes, what_cannot_be_written_keeps_the_world_as_it_is)
{
	shrink();
	membership_daemon.storage.root = 0;
	offer(1, EACH);
	occasion();
	quiesced(0, -ENOSPC);
	quiesced(2, 0);
	cr_expect(!fake_host.held && membership_plan(&membership_daemon.control, "gpt") == 2);
	for (uint32_t n = 0; n < NODES; n++)
		cr_expect_eq(nodes[n].away, 0, "they go on");
	occasion();
	cr_expect(!fake_host.held && !nodes[0].flush, "nobody waits for what was refused just now");
}

/* Each try of the change itself would cost all ranks an epoch. */
Test(membership_changes, what_was_refused_is_tried_again_when_a_save_was_written)
{
	shrink();
	membership_daemon.storage.root = 0;
	offer(1, EACH);
	occasion();
	quiesced(0, -ENOSPC);
	quiesced(2, 0);
	for (unsigned i = 0; i < 3; i++) {
		nodes[0].flush = false;
		clock_skip(61 * CLOCK_NS_PER_S);
		occasion();
		cr_expect(nodes[0].flush && !nodes[2].flush, "where rank 0 is it is decided what is written");
		cr_expect(!nodes[0].pause && !fake_host.held);
	}
	nodes[0].flush = false;
	tick();
	cr_expect(!nodes[0].flush, "once a minute");
	shown(12, fake_host.view.epoch, LEVEL_DURABLE);
	cr_expect(nodes[0].pause && !fake_host.held);
	occasion();
	cr_expect(fake_host.held, "another occasion, another try");
}

static const char *stuck(void)
{
	struct membership_view v = {0};
	const struct membership *at = NULL;
	cr_assert(membership_next(&membership_daemon.control, &at, &v));
	return v.stuck;
}

/* Without a store the others' copies are all that the new world has. */
Test(membership_changes, nobody_waits_for_copies_that_cannot_be_made)
{
	shrink();
	offer(1, EACH);
	fake_host.view.entered = fake_host.view.epoch;
	struct step_id id = {8, fake_host.view.epoch};
	tick();
	paused(0, 7);
	paused(2, 7);
	membership_uncopied(&membership_daemon.control, "gpt", (struct step_id){7, id.epoch}, "n1 is full");
	read_orders();
	cr_expect(nodes[0].after == 7 && !*stuck(), "in the fence of that one nobody waits");
	membership_uncopied(&membership_daemon.control, "gpt", id, "n1 is full");
	read_orders();
	cr_expect(nodes[0].after == UINT64_MAX && nodes[2].after == UINT64_MAX);
	cr_expect_str_eq(stuck(), "there is no store, and step 8 has not all its copies: n1 is full");
	nodes[0].pause = nodes[2].pause = false;
	clock_skip(1000 * CLOCK_NS_PER_S);
	tick();
	cr_expect(!nodes[0].pause && !fake_host.held);
	shown(9, id.epoch, LEVEL_REPLICATED);
	cr_expect(nodes[0].pause && nodes[2].pause && !*stuck(), "now they can be made");
	occasion();
	cr_expect(fake_host.held);
}

Test(membership_changes, who_need_not_wait_any_more_is_told_so)
{
	shrink();
	offer(1, EACH);
	fake_host.view.entered = fake_host.view.epoch;
	tick();
	paused(0, 7);
	offer(1, 0);
	cr_expect(nodes[0].after == UINT64_MAX && nodes[2].after == UINT64_MAX);
	paused(2, 7);
	shown(8, fake_host.view.epoch, LEVEL_REPLICATED);
	cr_expect_eq(fake_host.holds, 1);
}

/* ---- drain ------------------------------------------------------------------------------------------------------ */

static int drain(const char *job, const char *node, bool drained, struct err *err)
{
	int rc = membership_drain(&membership_daemon.control, job, node, drained, err);
	read_orders();
	return rc;
}

static void answer_at_once(uint32_t node, const struct peer_order *order)
{
	struct peer_report r = {.type = PEER_PAUSED, .job = "gpt", .epoch = fake_host.view.epoch, .step = 7};
	if (!node && order->type == PEER_PAUSE && order->step != UINT64_MAX)
		membership_report(&membership_daemon.control, node, true, &r);
}

/* With the answer of the first one it is seen that nobody is to be let go any more: the others hear that last. */
Test(membership_changes, a_pause_that_ends_while_it_is_told_has_ended_for_all)
{
	struct err err = {{0}};
	begin(3);
	fake_host.view.entered = fake_host.view.epoch;
	fake_host.answers = answer_at_once;
	cr_assert_eq(drain("gpt", "n2", true, &err), 0, "%s", err.text);
	tick();
	cr_assert(nodes[0].pause && nodes[1].pause && nodes[2].pause);
	paused(1, 7);
	cr_assert_eq(drain("gpt", "n2", false, &err), 0, "%s", err.text);
	paused(2, 7);
	for (uint32_t n = 0; n < 3; n++)
		cr_expect_eq(nodes[n].after, UINT64_MAX, "node %u waits in each fence", n);
}

static uint32_t left(const char *node)
{
	struct err err = {{0}};
	struct membership_drained is;
	cr_assert_eq(membership_drained(&membership_daemon.control, "gpt", node, &is, &err), 0, "%s", err.text);
	cr_expect_str_eq(is.job, "gpt");
	return is.ranks;
}

Test(membership_changes, what_a_node_has_is_in_doubt_while_the_world_is_found_out_anew)
{
	struct err err = {{0}};
	struct membership_drained is;
	begin(3);
	cr_expect_eq(drain("gpt", "n2", true, &err), 0, "%s", err.text);
	cr_expect_eq(membership_drained(&membership_daemon.control, "gpt", "n2", &is, &err), 0);
	cr_expect(is.asked);
	lose(2);
	cr_expect_eq(membership_drained(&membership_daemon.control, "gpt", "n2", &is, &err), -EBUSY,
		     "it is lost, and may come back with them");
}

Test(membership_changes, a_node_of_a_job_that_has_ended_has_no_ranks_of_it)
{
	struct err err = {{0}};
	struct membership_drained is;
	cr_expect_eq(membership_drained(&membership_daemon.control, "gpt", "n1", &is, &err), -ENOENT,
		     "or nobody knows it");
	begin(3);
	cr_expect_eq(left("n1"), EACH);
	membership_over(&membership_daemon.control, "gpt", true);
	cr_expect_eq(left("n1"), 0);
}

Test(membership_changes, a_node_is_drained_when_a_save_is_safe_and_may_come_back)
{
	struct err err;
	begin(3);
	cr_assert_eq(drain("", "n1", true, &err), 0);
	cr_expect_eq(left("n1"), EACH);
	tick();
	cr_expect_eq(fake_host.holds, 0);
	occasion();
	for (uint32_t n = 0; n < 3; n++)
		quiesced(n, 0);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	cr_expect_eq(nodes[1].plan.n, 0);
	cr_expect_eq(left("n1"), 0);
	follow();
	occasion();
	cr_expect_eq(fake_host.holds, 1, "it is not wanted back");
	cr_assert_eq(drain("gpt", "n1", false, &err), 0);
	occasion();
	for (uint32_t n = 0; n < 3; n++)
		quiesced(n, 0);
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 3);
	cr_expect_eq(nodes[1].plan.n, EACH);
}

/* One plan for both: who is drained may wait for the next epoch by now, with ranks that are others' in it. */
Test(membership_changes, ranks_of_a_node_that_is_drained_move_when_another_one_is_lost)
{
	struct err err;
	offer_spare(3);
	begin(3);
	cr_assert_eq(drain("", "n1", true, &err), 0);
	fake_host.moved = 0;
	lose(2);
	offer_spare(2);
	tick();
	cr_expect_eq(membership_plan(&membership_daemon.control, "gpt"), 2);
	cr_expect_eq(nodes[1].plan.n, 0);
	cr_expect_eq(nodes[3].plan.n, EACH);
	cr_expect(fake_host.moved & 1u << 1 && !(fake_host.moved & 1u << 0), "%x", fake_host.moved);
}

Test(membership_changes, a_restarted_coordinator_hears_from_a_node_that_it_is_drained)
{
	struct err err = {{0}};
	struct membership_drained is;
	begin(3);
	cr_assert_eq(drain("gpt", "n1", true, &err), 0);
	cr_expect(nodes[1].drained && !nodes[0].drained);
	memberships_free(&membership_daemon.control);
	for (uint32_t n = 0; n < 3; n++)
		offer(n, EACH);
	cr_assert_eq(membership_drained(&membership_daemon.control, "gpt", "n1", &is, &err), 0, "%s", err.text);
	cr_expect(is.asked && is.ranks == EACH, "it is let go at the next save, as before");
	membership_drained(&membership_daemon.control, "gpt", "n0", &is, &err);
	cr_expect(!is.asked);
	cr_assert_eq(drain("gpt", "n1", false, &err), 0);
	cr_expect(!nodes[1].drained);
}

Test(membership_changes, a_node_that_has_missed_what_was_ordered_is_told)
{
	struct err err = {{0}};
	struct membership_drained is;
	begin(3);
	cr_assert_eq(drain("gpt", "n1", true, &err), 0);
	cr_assert_eq(drain("gpt", "n1", false, &err), 0);
	nodes[1].drained = true;
	offer(1, EACH);
	cr_expect(nodes[1].drains == 3 && !nodes[1].drained);
	offer(1, EACH);
	cr_expect_eq(nodes[1].drains, 3, "now it knows");
	membership_drained(&membership_daemon.control, "gpt", "n1", &is, &err);
	cr_expect(!is.asked);
}

Test(membership_changes, what_a_launcher_said_and_what_an_operator_wants_are_two_things)
{
	struct err err = {{0}};
	begin(3);
	struct peer_capacity m = assignment_of(1, EACH);
	m.leaving = true;
	report(1, &m);
	cr_expect_eq(drain("gpt", "n1", false, &err), -ECANCELED);
	cr_expect(strstr(err.text, "its launcher was told to end"), "%s", err.text);
	struct membership_drained is;
	membership_drained(&membership_daemon.control, "gpt", "n1", &is, &err);
	cr_expect(is.asked, "it ends all the same");
	cr_expect_eq(drain("gpt", "n1", true, &err), 0);
	m.leaving = false;
	report(1, &m);
	membership_drained(&membership_daemon.control, "gpt", "n1", &is, &err);
	cr_expect(is.asked, "another launcher undoes no drain");
	cr_expect_eq(drain("gpt", "n1", false, &err), 0);
	membership_drained(&membership_daemon.control, "gpt", "n1", &is, &err);
	cr_expect(!is.asked);
}

Test(membership_changes, what_cannot_be_drained_is_refused)
{
	struct err err;
	cr_expect_eq(drain("", "n1", true, &err), -ENOENT);
	cr_expect(strstr(err.text, "no job is planned by this cluster"), "%s", err.text);
	begin(3);
	cr_expect_eq(drain("bert", "n1", true, &err), -ENOENT);
	cr_expect_eq(drain("", "n9", true, &err), -ENOENT);
	cr_expect_str_eq(err.text, "job 'gpt' has no node n9");
	cr_expect_eq(drain("", "n1", true, &err), 0);
	cr_expect_eq(drain("", "n2", true, &err), 0);
	cr_expect_eq(drain("", "n0", true, &err), -EBUSY);
	cr_expect_str_eq(err.text, "without node n0 job 'gpt' would have 0 ranks, and it needs 2");
	struct peer_report r = {
		.type = PEER_CAPACITY, .job = "bert", .assignment = {.want = 2, .least = 1, .processes = 1}};
	membership_report(&membership_daemon.control, 3, true, &r);
	cr_expect_eq(drain("", "n1", true, &err), -EINVAL, "which job?");
}

Test(membership_changes, a_node_of_which_nobody_holds_anything_is_not_drained)
{
	static const char none[] = "[job]\ncopies = 0\n";
	struct err err = {{0}};
	begin(3);
	cr_assert_eq(file_parse(membership_daemon.runtime.sources, "none", none, strlen(none), &err), 0, "%s",
		     err.text);
	cr_expect_eq(drain("", "n1", true, &err), -EINVAL);
	cr_expect(strstr(err.text, "what the ranks of node n1 have would be lost"), "%s", err.text);
	cr_expect_eq(drain("", "n3", true, &err), 0, "it has none");
	cr_expect_eq(drain("", "n1", false, &err), 0);
}

Test(membership_changes, a_launcher_that_leaves_too_few_ends_the_job)
{
	shrink();
	for (uint32_t n = 0; n <= 2; n += 2) {
		struct peer_capacity m = assignment_of(n, EACH);
		m.leaving = true;
		report(n, &m);
	}
	tick();
	cr_expect_eq(fake_host.halts, 1);
	tick();
	cr_expect_eq(fake_host.halts, 1, "it is asked once");
}

/* ---- ranks that would be parted ---------------------------------------------------------------------------------- */

Test(membership_changes, without_a_store_no_node_is_let_go_whose_ranks_nobody_takes_together)
{
	struct err err = {{0}};
	begin(3);
	fake_host.view.alike = true;
	struct peer_capacity m = assignment_of(3, 1);
	report(3, &m);
	offer(2, EACH + 1);
	cr_expect_eq(membership_drain(&membership_daemon.control, "gpt", "n1", true, &err), -EBUSY);
	cr_expect(strstr(err.text, "no node has room for all ranks of node n1"), "%s", err.text);
	m = assignment_of(1, EACH);
	m.leaving = true;
	report(1, &m);
	fake_host.view.entered = fake_host.view.epoch;
	tick();
	cr_expect(strstr(stuck(), "no node has room"), "%s", stuck());
	cr_expect(!nodes[0].pause && !fake_host.holds, "nobody waits for that");
	offer(3, EACH);
	occasion();
	cr_expect(fake_host.held, "now it has");
}
