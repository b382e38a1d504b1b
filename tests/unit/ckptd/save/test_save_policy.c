#include "ckptd/job_of.h"
#include "save/save_policy.h"

#include "daemon.h"
#include "job/job.h"
#include "job/saving.h"
#include "participant/participant.h"
#include "save/saves_private.h"

#include <criterion/criterion.h>
#include <string.h>

/* Snapshots without parts: what the policies look at is their state. */
static struct daemon d;
static struct job job;
static struct rank ranks[1];

static void setup(void)
{
	daemon_init(&d);
	d.storage.root = 3;
	list_init(&d.jobs.list);
	list_init(&d.control.hosts);
	outbox_init(&d.control.outbox);
	ranks[0] = (struct rank){.job = &job, .state = RANK_JOINED, .pidfd = -1};
	job = (struct job){JOB_OF(d), .name = "main", .world = 1, .nlocal = 1, .epoch = 1, .nslots = 5, .ranks = ranks};
	job.policy = (struct policy){.persist_every = 1, .save_queue = 2};
	job_init_saves(&job);
	copying_init(&job);
}

static void teardown(void)
{
	saves_free(&job.saves);
}

TestSuite(queue, .init = setup, .fini = teardown);

static struct snapshot *captured(uint64_t step)
{
	struct snapshot *s;
	cr_assert_eq(snapshot_new(&job.saves, (struct step_id){step, 1}, 0, &s), 0);
	s->state = SNAPSHOT_CAPTURED;
	s->to_storage = true;
	saves_insert(&job.saves, s);
	return s;
}

static struct snapshot *next(void)
{
	return queue_next(&job.saves);
}

/* As save/saves.c does when the commit has been started. */
static void writing(struct snapshot *s)
{
	job.saves.committing = s;
	if (s)
		s->storage_rc = 1; /* stands in for its commit: it is no longer wanted */
}

Test(queue, newest_writes_the_newest_and_gives_up_those_before_it)
{
	struct snapshot *first = captured(1);
	cr_assert_eq(next(), first);
	writing(first);
	struct snapshot *second = captured(2), *third = captured(3);
	cr_assert_null(next());
	cr_assert_eq(second->storage_rc, -ECANCELED);
	cr_assert(strstr(second->err.text, "superseded: step 3"), "%s", second->err.text);
	job.saves.committing = NULL;
	cr_assert_eq(next(), third);
}

Test(queue, queue_writes_in_order_and_refuses_what_finds_it_full)
{
	job.policy.save_policy = SAVE_QUEUE;
	struct snapshot *first = captured(1);
	cr_assert_eq(next(), first);
	writing(first);
	struct snapshot *second = captured(2), *third = captured(3), *fourth = captured(4);
	cr_assert_null(next());
	cr_assert_eq(fourth->storage_rc, -EBUSY);
	cr_assert(strstr(fourth->err.text, "2 saves wait") && strstr(fourth->err.text, "save-queue = 2"), "%s",
		  fourth->err.text);
	cr_assert(!second->storage_rc && !third->storage_rc);
	job.saves.committing = NULL;
	cr_assert_eq(next(), second);
}

/* One slot to capture into, one being written, one for the newest in memory: with four slots one save can wait. */
Test(queue, queue_leaves_the_training_a_slot)
{
	job.policy.save_policy = SAVE_QUEUE;
	job.nslots = 4;
	struct snapshot *first = captured(1);
	cr_assert_eq(next(), first);
	writing(first);
	struct snapshot *second = captured(2), *third = captured(3);
	cr_assert_null(next());
	cr_assert_eq(second->storage_rc, 0);
	cr_assert_eq(third->storage_rc, -EBUSY);
}

/* What is being written may still turn out torn. */
Test(queue, nothing_is_given_up_for_what_is_not_captured_yet)
{
	static const uint64_t policies[] = {SAVE_NEWEST, SAVE_REFUSE};
	for (unsigned i = 0; i < 2; i++) {
		job.policy.save_policy = policies[i];
		struct snapshot *first = captured(10 * i + 2);
		cr_assert_eq(next(), first);
		writing(first);
		first->state = SNAPSHOT_COPIED;
		struct snapshot *second = captured(10 * i + 1);
		cr_assert_null(next());
		cr_assert_eq(second->storage_rc, 0);
		first->state = SNAPSHOT_CAPTURED;
		cr_assert_null(next());
		cr_assert_neq(second->storage_rc, 0);
		writing(NULL);
	}
}

/* What is still being digested may find room until it is captured. */
Test(queue, nothing_is_refused_before_it_is_captured)
{
	job.policy.save_policy = SAVE_REFUSE;
	struct snapshot *first = captured(1);
	cr_assert_eq(next(), first);
	writing(first);
	struct snapshot *second = captured(2);
	second->state = SNAPSHOT_COPIED;
	cr_assert_null(next());
	cr_assert_eq(second->storage_rc, 0);
	job.saves.committing = NULL;
	cr_assert_eq(next(), second);
}

Test(queue, refuse_keeps_in_memory_what_meets_an_unfinished_one)
{
	job.policy.save_policy = SAVE_REFUSE;
	struct snapshot *first = captured(1);
	cr_assert_eq(next(), first);
	writing(first);
	struct snapshot *second = captured(2);
	cr_assert_null(next());
	cr_assert_eq(second->storage_rc, -EBUSY);
	cr_assert(strstr(second->err.text, "step 1 is still being written"), "%s", second->err.text);
	cr_assert_eq(second->state, SNAPSHOT_CAPTURED);
}

Test(queue, what_a_policy_keeps_can_be_flushed_and_what_has_failed_cannot)
{
	struct step_id id;
	struct err err = {{0}};
	job.policy.save_policy = SAVE_REFUSE;
	writing(captured(1));
	struct snapshot *kept = captured(2);
	cr_assert_null(next());
	cr_assert(kept->stays && !snapshot_to_storage(kept));
	cr_assert_eq(queue_flush(&job.saves, &id, &err), 0, "%s", err.text);
	cr_assert(!kept->stays && snapshot_to_storage(kept) && id.step == 2);
	snapshot_fail(kept, -EIO, "the disk is broken");
	cr_assert_eq(queue_flush(&job.saves, &id, &err), -EIO);
	cr_assert(strstr(err.text, "the disk is broken"), "%s", err.text);
	cr_assert(!kept->stays && kept->storage_rc == -EIO);
}

/* On another node than that of rank 0. */
Test(queue, what_is_kept_by_the_word_of_another_node_is_written_by_its_order)
{
	static const int why[] = {-EBUSY, -ECANCELED, -EOPNOTSUPP};
	job.spread = true;
	job.world = 2;
	ranks[0].id = 1;
	for (unsigned i = 0; i < 3; i++) {
		struct snapshot *s = captured(i + 1);
		saves_pass(&job.saves, s->id, why[i], "it stays in memory");
		cr_assert(s->storage_rc == why[i] && s->stays);
		job.saves.ordered.id = s->id;
		cr_assert_eq(saves_ordered(&job.saves), s);
		cr_assert(snapshot_to_storage(s) && !s->stays);
	}
	struct snapshot *failed = captured(4);
	saves_fail(&job.saves, failed->id, true, -EIO, "the disk is broken");
	job.saves.ordered.id = failed->id;
	cr_assert_null(saves_ordered(&job.saves));
	cr_assert_eq(failed->storage_rc, -EIO);
}

/* Whatever keeps it from storage: its digests and replicas are compared, and nobody is told of an error before. */
static void goes_on_in_memory(struct snapshot *s, int why)
{
	cr_assert_eq(s->state, SNAPSHOT_COPIED);
	cr_assert_eq(s->storage_rc, why, "%d", s->storage_rc);
	cr_assert_not(saves_wants_commit(s));
	cr_assert_eq(snapshot_error(s), 0);
	snapshot_captured(s);
	cr_assert(s->state == SNAPSHOT_CAPTURED && snapshot_error(s) == why);
}

static struct snapshot *copied(uint64_t step)
{
	struct snapshot *s = captured(step);
	s->state = SNAPSHOT_COPIED;
	return s;
}

Test(queue, what_cannot_be_written_before_it_is_captured_goes_on_in_memory)
{
	struct snapshot *s = copied(1), *none = copied(2), *torn = copied(3);
	saves_fail(&job.saves, s->id, true, -ENOSPC, "its directory cannot be made");
	goes_on_in_memory(s, -ENOSPC);
	d.storage.root = -1;
	cr_assert_null(next());
	goes_on_in_memory(none, -EINVAL);
	saves_fail(&job.saves, torn->id, false, -EUCLEAN, "replicas differ");
	cr_assert(torn->state == SNAPSHOT_FAILED && torn->rc == -EUCLEAN && !torn->storage_rc);
}

static bool is_written(uint64_t step)
{
	struct snapshot *s = captured(step);
	if (next() == s) {
		s->storage_rc = 1; /* written */
		return true;
	}
	cr_assert_eq(s->storage_rc, -EOPNOTSUPP);
	return false;
}

Test(queue, persist_every_writes_the_first_and_then_every_nth)
{
	job.policy.persist_every = 3;
	for (uint64_t step = 0; step < 9; step++)
		cr_assert_eq(is_written(10 * step), step % 3 == 0, "save %lu", (unsigned long)step);
}

Test(queue, a_save_that_is_passed_over_says_why_and_stays_captured)
{
	job.policy.persist_every = 2;
	cr_assert(is_written(1));
	struct snapshot *s = captured(2);
	s->state = SNAPSHOT_COPIED; /* a failure now would cost the copy in memory, too */
	cr_assert_null(next());
	cr_assert_eq(s->rc, 0);
	s->state = SNAPSHOT_CAPTURED;
	cr_assert_null(next());
	cr_assert_eq(s->storage_rc, -EOPNOTSUPP);
	cr_assert(strstr(s->err.text, "persist-every = 2"), "%s", s->err.text);
	cr_assert_eq(s->state, SNAPSHOT_CAPTURED);
}

Test(queue, after_a_failure_the_next_save_is_due)
{
	job.policy.persist_every = 5;
	struct snapshot *s = captured(1);
	cr_assert_eq(next(), s);
	snapshot_fail(s, -ENOSPC, "no space");
	cr_assert(is_written(2));
	cr_assert(!is_written(3));
}

Test(queue, a_shorter_interval_counts_at_once)
{
	job.policy.persist_every = 100;
	cr_assert(is_written(1));
	cr_assert(!is_written(2));
	job.policy.persist_every = 2;
	cr_assert(is_written(3));
	cr_assert(!is_written(4));
}

Test(queue, a_job_that_is_asked_to_stop_writes_each_save)
{
	job.policy.persist_every = 5;
	cr_assert(is_written(1));
	job.stop = true;
	cr_assert(is_written(2));
	cr_assert(is_written(3));
}

/* Every rank here has begun it, and none is copied. */
static struct snapshot *open_one(uint64_t step)
{
	struct snapshot *s = captured(step);
	s->state = SNAPSHOT_OPEN;
	return s;
}

Test(queue, a_disk_with_nothing_else_to_do_begins_with_what_is_still_copied)
{
	for (uint64_t policy = SAVE_NEWEST; policy <= SAVE_REFUSE; policy++) {
		job.policy.save_policy = policy;
		struct snapshot *s = open_one(10 * policy + 1);
		cr_expect_eq(next(), s);
		cr_expect(s->due);
		writing(s);
		open_one(10 * policy + 2);
		cr_expect_null(next());
		struct snapshot *done = captured(10 * policy + 3);
		job.saves.committing = NULL;
		cr_expect_eq(next(), done, "what is complete goes first");
		done->storage_rc = saves_find(&job.saves, (struct step_id){10 * policy + 2, 1})->storage_rc = 1;
	}
}

Test(queue, what_is_still_copied_is_not_begun_where_it_would_not_be_written)
{
	struct snapshot *s = open_one(1), *late;
	s->to_storage = false;
	cr_expect_null(next(), "for memory only");
	s->to_storage = true;
	d.storage.root = -1;
	cr_expect_null(next(), "no store");
	d.storage.root = 3;
	job.epoch = 2;
	cr_expect_null(next(), "of an epoch that is over");
	job.epoch = 1;
	d.runtime.stopping = true;
	cr_expect_null(next(), "the daemon ends");
	d.runtime.stopping = false;
	cr_expect(!s->due && !s->passed_over && !s->rc && !s->storage_rc);
	cr_expect_eq(next(), s);
	s->storage_rc = 1;
	s->state = SNAPSHOT_CAPTURED;
	cr_assert_eq(snapshot_new(&job.saves, (struct step_id){2, 1}, 1, &late), 0);
	late->to_storage = true;
	saves_insert(&job.saves, late);
	cr_expect_null(next(), "a rank has not begun it");
}

/* What fails while it is copied has never counted. */
Test(queue, what_is_still_copied_is_not_passed_over)
{
	job.policy.persist_every = 3;
	cr_assert(is_written(1));
	struct snapshot *s = open_one(2);
	cr_expect_null(next());
	cr_expect(!s->due && !s->passed_over);
	snapshot_fail(s, -ECANCELED, "a rank skipped it");
	cr_expect(!is_written(3));
	cr_expect(!is_written(4));
	struct snapshot *due = open_one(5);
	cr_expect_eq(next(), due);
	snapshot_fail(due, -EIO, "torn");
	cr_expect(is_written(6), "in its place");
}

Test(queue, without_a_store_nothing_is_written)
{
	d.storage.root = -1;
	struct snapshot *s = captured(1);
	cr_assert_null(next());
	cr_assert_eq(s->storage_rc, -EINVAL);
}

Test(queue, a_daemon_that_ends_begins_nothing)
{
	d.runtime.stopping = true;
	struct snapshot *s = captured(1);
	cr_assert_null(next());
	cr_assert_eq(s->storage_rc, 0);
}

Test(queue, a_save_that_waits_fails_when_its_copy_is_found_damaged)
{
	struct err err = {{0}};
	list_push(&d.jobs.list, &job.link);
	cr_assert_eq(participation_take(&job, 0, &err), 0, "%s", err.text);
	struct snapshot *first = captured(1), *second = captured(2);
	writing(first);
	saves_drop(&job.saves, second);
	const struct save_record *r = &job.save_stats.saves[job.save_stats.nsaves - 1];
	cr_expect_eq(r->id.step, 2);
	cr_expect_eq(r->rc, -EBADMSG, "who waits for it would never hear of it");
	participation_leave(&job, false);
}

Test(queue, what_is_found_damaged_while_it_is_written_is_given_up_until_it_is_prepared)
{
	struct err err = {{0}};
	list_push(&d.jobs.list, &job.link);
	cr_assert_eq(participation_take(&job, 0, &err), 0, "%s", err.text);
	for (enum node_part_state state = NODE_PART_SYNC_DIR; state <= NODE_PART_CLOSE_NODE; state++) {
		struct snapshot *s = captured(state);
		struct node_part c = {.state = state};
		s->commit = &c;
		saves_drop(&job.saves, s);
		bool given_up = state == NODE_PART_SYNC_DIR;
		cr_expect_eq(c.rc, given_up ? -EBADMSG : 0, "in %s", node_part_state_name(state));
		cr_expect_eq(s->storage_rc, c.rc, "in %s", node_part_state_name(state));
		cr_expect(s->damaged);
		s->commit = NULL;
		writing(s);
	}
	participation_leave(&job, false);
}
