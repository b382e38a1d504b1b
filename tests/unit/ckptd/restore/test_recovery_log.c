#include "restore/recovery_log.h"

#include "base/clock.h"
#include "format/arena/arena.h"

#include <criterion/criterion.h>

#define MS CLOCK_NS_PER_MS

static struct recovery_log log_;
static struct recovery_log *const all = &log_;
static struct arena_entry entries[2];
static unsigned noted, again_; /* what was written down, and of that not at once */
static bool away;              /* who writes it down */

static struct arena_entry *entry(void *arg, uint32_t rank)
{
	return rank < 2 ? (struct arena_entry *)arg + rank : NULL;
}

static bool note(void *arg, const struct recovery_record *r, bool again)
{
	(void)arg;
	cr_assert_neq(r->state, RECOVERY_UNDER_WAY);
	if (away)
		return false;
	noted++;
	again_ += again;
	return true;
}

static void setup(void)
{
	recoveries_init(all, &(struct logged_job){.entry = entry, .note = note, .arg = entries});
}

static void teardown(void)
{
	recoveries_free(all);
}

TestSuite(recovery_log, .init = setup, .fini = teardown);

static void restore(uint64_t asked_ns, uint64_t chosen_ns)
{
	static const struct recovery_part parts[2] = {
		{.rank = 0, .source = WIRE_FROM_MEMORY, .fetch_ns = MS},
		{.rank = 1, .source = WIRE_FROM_PEER, .from = 1, .fetch_ns = 2 * MS}};
	recoveries_answered(all, &(struct recovery_end){.id = {40, 2},
							.epoch = 3,
							.world = 2,
							.source = WIRE_FROM_PEER,
							.asked_ns = asked_ns,
							.chosen_ns = chosen_ns,
							.passed_over = "",
							.parts = parts,
							.nparts = 2});
}

static const struct recovery_record *last(void)
{
	return recoveries_at(all, all->n - 1);
}

/* So long after the answer. */
static void does(uint32_t rank, uint64_t loaded, uint64_t stepped)
{
	struct arena_entry *entry = &entries[rank];
	atomic_store(&entry->loaded_ns, last()->answered_ns + loaded);
	atomic_store(&entry->stepped_ns, stepped ? last()->answered_ns + stepped : 0);
}

static void tick(uint64_t after)
{
	recoveries_tick(all, last()->answered_ns + after);
}

Test(recovery_log, the_parts_follow_each_other_from_the_last_heartbeat_to_the_first_step)
{
	/* All of it lies in the past, however soon after each other these lines run. */
	recoveries_lost(all, clock_now() - 110 * MS);
	uint64_t seen = all->lost_ns -= 10 * MS;
	recoveries_raise(all, "rank 1 is lost", LOST_RANK);
	uint64_t raised = all->raised_ns -= 5 * MS;
	restore(raised + MS / 1000, raised + MS / 500);
	const struct recovery_record *r = last();
	cr_assert(r->seen && r->raised && r->state == RECOVERY_UNDER_WAY);
	cr_assert_geq(r->detect_ns, 100 * MS);
	cr_assert_eq(r->decide_ns, raised - seen);
	cr_assert_eq(r->gather_ns, MS / 1000);
	cr_assert_eq(r->choose_ns, MS / 500 - MS / 1000);
	does(0, 3 * MS, 9 * MS);
	does(1, 5 * MS, 8 * MS);
	tick(20 * MS);
	cr_assert_eq(r->state, RECOVERY_DONE);
	cr_assert_eq(r->load_ns, 5 * MS);
	cr_assert_eq(r->first_step_ns, 4 * MS);
	cr_assert_eq(recovery_total_ns(r), r->answered_ns + 9 * MS - (seen - r->detect_ns));
	cr_assert_eq(all->total.count, 1u);
	cr_assert_eq(all->restore[WIRE_FROM_PEER].count, 1u);
}

Test(recovery_log, it_is_under_way_until_every_rank_has_done_a_step)
{
	restore(clock_now(), 0);
	does(0, MS, 2 * MS);
	tick(3 * MS);
	cr_assert_eq(last()->load_ns, 0u);
	does(1, 4 * MS, 0);
	tick(5 * MS);
	cr_assert_eq(last()->load_ns, 4 * MS);
	cr_assert_eq(last()->state, RECOVERY_UNDER_WAY);
	cr_assert_eq(recovery_total_ns(last()), 0u);
	does(1, 4 * MS, 9 * MS);
	tick(8 * MS);
	cr_assert_eq(last()->state, RECOVERY_UNDER_WAY, "a step of the future is not believed");
	tick(9 * MS);
	cr_assert_eq(last()->state, RECOVERY_DONE);
}

Test(recovery_log, what_a_rank_did_after_an_earlier_restore_does_not_count)
{
	for (uint32_t r = 0; r < 2; r++) {
		atomic_store(&entries[r].loaded_ns, clock_now() - MS);
		atomic_store(&entries[r].stepped_ns, clock_now() - MS / 2);
	}
	restore(clock_now(), 0);
	tick(MS);
	cr_assert_eq(last()->load_ns, 0u);
	does(0, 2 * MS, 0);
	atomic_store(&entries[0].stepped_ns, last()->answered_ns - MS / 2);
	tick(3 * MS);
	cr_assert_eq(last()->parts[0].load_ns, 2 * MS);
	cr_assert_eq(last()->parts[0].first_step_ns, 0u);
}

Test(recovery_log, another_epoch_cuts_it_short_and_begins_the_next)
{
	restore(clock_now(), 0);
	recoveries_lost(all, 0);
	recoveries_raise(all, "rank 0 is lost", LOST_RANK);
	cr_assert_eq(last()->state, RECOVERY_CUT);
	cr_assert_eq(recovery_total_ns(last()), 0u);
	restore(clock_now(), 0);
	cr_assert_eq(last()->state, RECOVERY_UNDER_WAY);
	cr_assert_str_eq(last()->reason, "rank 0 is lost");
	cr_assert(last()->seen && !last()->detect_ns, "it gave no heartbeat");
}

Test(recovery_log, a_loop_without_heartbeats_is_not_waited_for_for_ever)
{
	restore(clock_now(), 0);
	tick(RECOVERY_STEP_NS);
	cr_assert_eq(last()->state, RECOVERY_UNDER_WAY);
	tick(RECOVERY_STEP_NS + 1);
	cr_assert_eq(last()->state, RECOVERY_CUT);
}

Test(recovery_log, ranks_are_on_their_way_back_from_the_new_epoch_to_their_first_step)
{
	cr_expect_not(recoveries_return(all, clock_now()), "nothing was lost");
	recoveries_raise(all, "rank 1 is lost", LOST_RANK);
	cr_expect(recoveries_return(all, clock_now()));
	cr_expect_not(recoveries_return(all, all->raised_ns + RECOVERY_RETURN_NS),
		      "who comes so late is not waited for");
	all->raised_ns -= RECOVERY_RETURN_NS;
	restore(clock_now(), 0);
	cr_expect(recoveries_return(all, clock_now()), "they have their state, and load it");
	cr_expect_not(recoveries_return(all, last()->answered_ns + RECOVERY_RETURN_NS),
		      "a loop may give no heartbeats");
	does(0, MS, 2 * MS);
	does(1, MS, 2 * MS);
	tick(3 * MS);
	cr_expect_not(recoveries_return(all, last()->answered_ns + 3 * MS), "all have done a step");
}

Test(recovery_log, what_has_ended_just_now_is_still_taken)
{
	restore(clock_now(), 0);
	while (clock_now() <= last()->answered_ns + 3000)
		;
	does(0, 1000, 2000);
	does(1, 1000, 2000);
	recoveries_end(all);
	cr_assert_eq(last()->state, RECOVERY_DONE);
}

Test(recovery_log, of_several_losses_before_a_restore_the_first_counts)
{
	recoveries_lost(all, clock_now() - MS);
	uint64_t seen = all->lost_ns;
	recoveries_lost(all, clock_now());
	cr_assert_eq(all->lost_ns, seen);
	recoveries_raise(all, "rank 1 is lost", LOST_RANK);
	uint64_t raised = all->raised_ns;
	recoveries_lost(all, clock_now());
	recoveries_raise(all, "rank 0 is lost", LOST_RANK);
	cr_assert(all->lost_ns == seen && all->raised_ns == raised);
	restore(clock_now(), 0);
	cr_assert_str_eq(last()->reason, "rank 1 is lost");
	cr_assert(!all->lost_ns && !all->raised_ns);
}

Test(recovery_log, a_loss_that_no_epoch_follows_is_forgotten)
{
	recoveries_lost(all, 0);
	recoveries_no_loss(all);
	recoveries_raise(all, "node b is lost", LOST_NODE);
	restore(clock_now(), 0);
	cr_assert(last()->raised && !last()->seen, "it was not here");
}

/* A rank that joins, or a world that changes, has lost nothing. */
Test(recovery_log, losses_are_counted_by_where_the_state_came_from)
{
	restore(clock_now(), 0);
	recoveries_raise(all, "rank 1 joins", LOST_NONE);
	restore(clock_now(), 0);
	cr_assert(last()->raised && !last()->loss && !recoveries_losses_from(all, WIRE_FROM_PEER));
	recoveries_raise(all, "rank 1 joins", LOST_NONE);
	recoveries_raise(all, "rank 1 is lost", LOST_RANK);
	restore(clock_now(), 0);
	cr_assert(last()->loss);
	cr_assert_eq(recoveries_losses_from(all, WIRE_FROM_PEER), 1u);
	restore(clock_now(), 0);
	cr_assert_eq(recoveries_losses_from(all, WIRE_FROM_PEER), 1u, "once");
}

Test(recovery_log, losses_are_counted_by_what_was_lost_first)
{
	recoveries_raise(all, "rank 1 joins", LOST_NONE);
	recoveries_raise(all, "node b is lost", LOST_NODE);
	recoveries_raise(all, "rank 1 is lost", LOST_RANK);
	restore(clock_now(), 0);
	recoveries_raise(all, "rank 2 is lost", LOST_HANG);
	restore(clock_now(), 0);
	cr_assert_eq(recoveries_losses_of(all, LOST_NODE), 1u);
	cr_assert_eq(recoveries_losses_of(all, LOST_HANG), 1u);
	cr_assert_eq(recoveries_losses_of(all, LOST_RANK), 0u);
	cr_assert_eq(recoveries_losses_from(all, WIRE_FROM_PEER), 2u);
}

Test(recovery_log, the_time_between_losses_is_known_from_the_first_one_on)
{
	cr_assert_eq(recoveries_between(all, 0, all->since_ns + 1000), 0);
	cr_assert_float_eq(recoveries_between(all, 4, all->since_ns + 10 * CLOCK_NS_PER_S), 2.5, 1e-9);
}

Test(recovery_log, a_start_and_a_refusal_are_told_as_such)
{
	restore(clock_now(), 0);
	cr_assert_str_eq(last()->reason, "start");
	cr_assert_not(last()->raised);
	recoveries_answered(all, &(struct recovery_end){.rc = -EBADMSG, .passed_over = "all damaged"});
	cr_assert_eq(last()->state, RECOVERY_REFUSED);
	cr_assert_eq(recoveries_at(all, 0)->state, RECOVERY_CUT);
	cr_assert_str_eq(last()->passed_over, "all damaged");
}

Test(recovery_log, the_newest_are_kept)
{
	for (uint32_t i = 0; i < RECOVERIES_MAX + 3; i++)
		recoveries_answered(all, &(struct recovery_end){.id = {i, 3}, .source = 1, .passed_over = ""});
	cr_assert_eq(all->n, (uint32_t)RECOVERIES_MAX);
	cr_assert_eq(recoveries_at(all, 0)->id.step, 3u);
	cr_assert_eq(last()->id.step, RECOVERIES_MAX + 2u);
}

Test(recovery_log, each_is_written_down_once_when_it_is_over)
{
	restore(clock_now(), 0);
	cr_assert_eq(noted, 0u, "it is under way");
	recoveries_raise(all, "rank 0 is lost", LOST_RANK);
	cr_assert_eq(noted, 1u);
	recoveries_answered(all, &(struct recovery_end){.rc = -EBADMSG, .passed_over = "all damaged"});
	cr_assert_eq(noted, 2u, "a refusal is over at once");
	tick(MS);
	cr_assert(noted == 2 && !again_);
}

Test(recovery_log, what_could_not_be_written_down_is_later_a_few_at_a_time)
{
	away = true;
	for (uint32_t i = 0; i < 20; i++)
		recoveries_answered(all, &(struct recovery_end){.rc = -EBADMSG, .passed_over = "all damaged"});
	tick(MS);
	cr_assert_eq(noted, 0u);
	away = false;
	tick(2 * MS);
	cr_assert(noted && noted < 20, "%u at one tick", noted);
	for (uint32_t i = 0; i < 20; i++)
		tick(3 * MS);
	cr_assert(noted == 20 && again_ == 20);
}
