#include "ckptd/job_of.h"
#include "save/copies.h"

#include "base/clock.h"
#include "fakes.h"

#include <criterion/criterion.h>
#include <string.h>

enum { LOCAL = 2, FIRST = 4 /* its ranks */ };

static const struct step_id s10 = {10, 1}, s20 = {20, 1}, s30 = {30, 2};

static struct daemon daemon;
static struct rank ranks[LOCAL];
static struct part parts[LOCAL];
static struct snapshot snapshot;
static struct memory mems[LOCAL];
static struct job job;

static void setup(void)
{
	fakes_reset();
	daemon_init(&daemon);
	daemon.peers.replica = (struct replica *)&daemon;
	daemon.storage.root = 0;
	job = (struct job){JOB_OF(daemon),  .name = "gpt",  .policy.copies = 1, .world = 8,
			   .nlocal = LOCAL, .spread = true, .epoch = 1,         .ranks = ranks};
	for (uint32_t r = 0; r < LOCAL; r++) {
		ranks[r] = (struct rank){.job = &job, .id = FIRST + r, .index = r, .state = RANK_JOINED};
		parts[r] = (struct part){.mem = &mems[r], .slot = 1 + r};
	}
	snapshot = (struct snapshot){.id = s10, .parts = parts, .nparts = LOCAL};
	fake_saves = (struct fake_saves){.snapshot = &snapshot, .job = &job};
	copying_init(&job);
}

TestSuite(copies, .init = setup);

static void order(struct step_id id)
{
	snapshot.id = id;
	fake_replica.whole = 0;
	copying_order(&job, id);
}

static void hold_all(struct step_id id)
{
	order(id);
	for (uint32_t r = 0; r < LOCAL; r++)
		fake_sent(FIRST + r, 0, "");
}

static void raise(void)
{
	job.epoch++;
	copying_epoch(&job);
}

static bool kept(struct step_id id)
{
	return copies_keep(&job.copies, id);
}

/* ---- sending ---------------------------------------------------------------------------------------------------- */

Test(copies, the_part_of_each_rank_is_sent_out_of_its_slot)
{
	copies_replicated(&job.copies, s10);
	order(s20);
	cr_assert_eq(fake_replica.nsends, LOCAL);
	for (uint32_t r = 0; r < LOCAL; r++) {
		const struct replica_send *what = &fake_replica.sends[r];
		cr_expect_str_eq(what->job, "gpt");
		cr_expect(what->rank == FIRST + r && what->mem == &mems[r] && what->slot == 1 + r);
		cr_expect(what->epoch == 1 && what->copies == 1 && !step_compare(what->id, s20));
		cr_expect_eq(step_compare(what->keep, s10), 0, "its holder keeps what all have");
	}
	cr_expect_eq(copying_missing(&job), 0, "they are on their way");
}

Test(copies, they_wait_for_ranks_that_are_on_their_way_back_to_work)
{
	fake_saves.returns = true;
	job.restore.last = s10;
	order(s10);
	copying_tick(&job);
	cr_expect_eq(fake_replica.nsends, 0);
	cr_expect_eq(fake_participant.reached + fake_participant.uncopied, 0, "nothing is known of them yet");
	cr_expect(kept(s10));
	fake_saves.returns = false;
	copying_tick(&job);
	cr_expect_eq(fake_replica.nsends, LOCAL);
}

Test(copies, of_what_is_saved_on_the_way_they_do_not_wait)
{
	fake_saves.returns = true;
	job.restore.last = s10;
	order(s20);
	cr_expect_eq(fake_replica.nsends, LOCAL);
}

Test(copies, the_coordinator_hears_once_when_all_are_held)
{
	order(s10);
	fake_sent(FIRST, 0, "");
	cr_expect_eq(fake_participant.reached, 0);
	fake_sent(FIRST + 1, 0, "");
	cr_assert_eq(fake_participant.reached, 1);
	cr_expect(fake_participant.level == LEVEL_REPLICATED && !step_compare(fake_participant.id, s10));
	copying_tick(&job);
	cr_expect_eq(fake_participant.reached, 1);
	cr_expect_eq(fake_participant.uncopied, 0);
}

Test(copies, what_cannot_be_made_is_said_and_tried_again)
{
	order(s10);
	fake_sent(FIRST, 0, "");
	fake_sent(FIRST + 1, -EHOSTUNREACH, "no other node is there");
	cr_assert_eq(fake_participant.uncopied, 1);
	cr_expect_eq(copying_missing(&job), 1);
	cr_expect_str_eq(job.copying.why.text, "rank 5: no other node is there");
	copying_tick(&job);
	cr_expect_eq(fake_replica.nsends, LOCAL, "not at once");
	clock_skip(11 * CLOCK_NS_PER_S);
	copying_tick(&job);
	copying_tick(&job);
	cr_assert_eq(fake_replica.nsends, LOCAL + 1, "that of one rank");
	fake_sent(FIRST + 1, 0, "");
	cr_expect_eq(fake_participant.reached, 1);
	cr_expect_str_eq(job.copying.why.text, "");
	cr_expect_eq(fake_participant.uncopied, 1, "it is said once");
}

Test(copies, a_copy_that_its_sender_made_by_itself_counts)
{
	order(s10);
	fake_sent(FIRST, 0, "");
	fake_sent(FIRST + 1, -ECONNRESET, "lost");
	fake_replica.whole |= 1ull << (FIRST + 1);
	copying_tick(&job);
	cr_expect_eq(fake_participant.reached, 1);
}

Test(copies, what_is_not_in_memory_cannot_be_copied)
{
	copying_order(&job, s20);
	cr_expect_eq(fake_replica.nsends, 0);
	cr_expect_eq(fake_participant.uncopied, 1);
	cr_expect_str_eq(job.copying.why.text, "rank 5: it is not in memory");
}

Test(copies, a_part_of_the_last_order_that_is_on_its_way_out_is_waited_for)
{
	fake_replica.send_rc = -EBUSY;
	order(s10);
	cr_expect_eq(fake_participant.uncopied, 0);
	cr_expect_eq(copying_missing(&job), 0);
	fake_replica.send_rc = 0;
	copying_tick(&job);
	cr_expect_eq(fake_replica.nsends, LOCAL);
}

Test(copies, a_later_epoch_that_others_know_of_is_named)
{
	fake_replica.send_rc = -ESTALE;
	order(s10);
	cr_expect_eq(fake_participant.uncopied, 1);
	cr_expect(strstr(job.copying.why.text, "later epoch"), "%s", job.copying.why.text);
}

Test(copies, who_replicates_nothing_says_so_at_once)
{
	job.policy.copies = 0;
	order(s10);
	cr_expect_eq(fake_participant.uncopied, 1);
	cr_expect_eq(fake_replica.nsends, 0);
	cr_expect(!kept(s10));
}

Test(copies, what_ends_after_its_order_changes_nothing)
{
	order(s10);
	raise();
	fake_sent(FIRST, 0, "");
	fake_sent(FIRST + 1, 0, "");
	cr_expect_eq(fake_participant.reached, 0, "its epoch is over");
	order(s20);
	struct replica_send old = fake_replica.sends[0];
	struct replica_sent late = {.job = old.job, .rank = old.rank, .id = old.id};
	old.done(old.arg, &late);
	cr_expect_eq(fake_participant.reached + fake_participant.uncopied, 0);
	cr_expect_eq(fake_replica.epochs, 1, "regions of the old epoch were closed");
}

/* ---- what stays ------------------------------------------------------------------------------------------------- */

Test(copies, what_is_replicated_stays_until_something_newer_is)
{
	hold_all(s10);
	copies_replicated(&job.copies, s10);
	order(s20);
	cr_expect(kept(s10) && kept(s20) && !kept(s30));
	copies_replicated(&job.copies, s20);
	cr_expect(!kept(s10) && kept(s20));
	cr_expect_eq(fake_replica.forgets, 1);
	cr_expect_eq(step_compare(fake_replica.forgotten, s10), 0, "what is older than the one before");
	copies_replicated(&job.copies, s10);
	cr_expect(!kept(s10), "it never goes back");
}

Test(copies, what_is_on_storage_need_not_stay)
{
	copies_replicated(&job.copies, s10);
	copies_durable(&job.copies, s20);
	cr_expect(!kept(s10));
	copies_replicated(&job.copies, s30);
	cr_expect(kept(s30));
}

/* Nobody could have what was replicated, or the epoch had not gone on from something older. */
Test(copies, what_an_epoch_has_gone_on_from_stays_although_something_newer_was_replicated_before)
{
	copies_replicated(&job.copies, s20);
	raise();
	copies_replicated(&job.copies, s10);
	cr_expect(kept(s20) && !kept(s10), "it was not restored");
	hold_all(s10);
	copies_replicated(&job.copies, s10);
	order(s30);
	cr_expect(kept(s10) && !kept(s20));
	cr_expect_eq(fake_replica.forgets, 0, "the holders have it since a moment");
	copies_replicated(&job.copies, s30);
	cr_expect(kept(s30) && !kept(s10));
}

/* The others may have heard that it is replicated, and given up what is older. */
Test(copies, what_this_node_has_said_is_held_stays_in_the_next_epoch)
{
	copies_replicated(&job.copies, s10);
	hold_all(s20);
	raise();
	cr_expect(kept(s10) && kept(s20));
	hold_all(s30);
	cr_expect(kept(s10) && !kept(s20) && kept(s30), "another one is ordered");
}

Test(copies, what_was_not_held_cannot_have_been_replicated_and_goes_with_its_epoch)
{
	order(s20);
	fake_sent(FIRST, 0, "");
	cr_expect(kept(s20));
	raise();
	cr_expect(!kept(s20));
}

Test(copies, what_is_held_goes_with_its_epoch_once_it_is_on_storage)
{
	hold_all(s20);
	raise();
	copies_durable(&job.copies, s20);
	cr_expect(!kept(s20));
}

Test(copies, what_is_held_goes_when_a_restore_needs_its_slots)
{
	hold_all(s20);
	copies_yield(&job.copies);
	cr_expect(kept(s20), "its epoch lasts");
	raise();
	copies_yield(&job.copies);
	cr_expect(!kept(s20));
}

Test(copies, what_is_held_goes_when_the_ranks_go_on_without_a_restore)
{
	hold_all(s20);
	raise();
	ranks[1].state = RANK_REGISTERED;
	copying_tick(&job);
	clock_skip(60 * CLOCK_NS_PER_S);
	copying_tick(&job);
	cr_expect(kept(s20), "not all have entered");
	ranks[1].state = RANK_JOINED;
	ranks[0].restoring.seq = 1;
	copying_tick(&job);
	clock_skip(60 * CLOCK_NS_PER_S);
	copying_tick(&job);
	cr_expect(kept(s20), "a restore is under way");
	ranks[0].restoring.seq = 0;
	copying_tick(&job);
	clock_skip(60 * CLOCK_NS_PER_S);
	copying_tick(&job);
	cr_expect(!kept(s20));
}

/* ---- the end, and other nodes ----------------------------------------------------------------------------------- */

Test(copies, a_job_that_is_here_alone_ends_and_one_that_is_spread_leaves)
{
	copying_end(&job);
	cr_expect(fake_replica.leaves == 1 && fake_replica.ends == 0);
	job.world = LOCAL;
	copying_end(&job);
	cr_expect(fake_replica.leaves == 1 && fake_replica.ends == 1);
}

Test(copies, what_its_ranks_were_refused_is_held_for_others)
{
	job.world = LOCAL;
	copying_refused(&job, -EINVAL);
	copying_end(&job);
	cr_expect(fake_replica.leaves == 1 && fake_replica.ends == 0);
	copying_order(&job, s10);
	copying_end(&job);
	cr_expect_eq(fake_replica.ends, 1, "they have saved something");
}

Test(copies, that_there_is_nothing_is_no_refusal)
{
	job.world = LOCAL;
	copying_refused(&job, -ENOENT);
	copying_end(&job);
	cr_expect_eq(fake_replica.ends, 1);
}

Test(copies, another_node_finds_what_is_whole_in_memory)
{
	struct memory *mem = NULL;
	uint32_t slot = 0;
	cr_expect_eq(copying_find(&daemon.jobs, "gpt", FIRST + 1, s10, &mem, &slot), 0);
	cr_expect(mem == &mems[1] && slot == 2);
	cr_expect_eq(copying_find(&daemon.jobs, "gpt", FIRST, s20, &mem, &slot), -ENOENT);
	cr_expect_eq(copying_find(&daemon.jobs, "gpt", 0, s10, &mem, &slot), -ENOENT, "a rank of another node");
	cr_expect_eq(copying_find(&daemon.jobs, "bert", FIRST, s10, &mem, &slot), -ENOENT);
}
