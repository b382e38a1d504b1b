#include "ckptd/job_of.h"
#include "save/save_stats.h"

#include "base/clock.h"
#include "daemon.h"
#include "job/job.h"
#include "job/saving.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct daemon d;
static struct job job;
static struct rank ranks[2];
static struct save_stats *const m = &job.save_stats;

static void setup(void)
{
	daemon_init(&d);
	list_init(&d.jobs.list);
	job = (struct job){JOB_OF(d),
			   .name = "main",
			   .world = 2,
			   .nlocal = 2,
			   .epoch = 3,
			   .ranks = ranks,
			   .policy = {.verify = true, .join_timeout_ms = 1000}};
	copying_init(&job);
	job_init_saves(&job);
}

TestSuite(save_stats, .init = setup);

static struct snapshot *begin(uint64_t step, bool to_storage)
{
	struct snapshot *s;
	cr_assert_eq(snapshot_new(&job.saves, (struct step_id){step, 3}, 2, &s), 0);
	s->to_storage = to_storage;
	save_stats_save(m, s);
	return s;
}

static void capture(struct snapshot *s)
{
	s->state = SNAPSHOT_CAPTURED;
	s->captured_ns = s->opened_ns + 5 * CLOCK_NS_PER_MS;
	save_stats_save(m, s);
}

static void make_durable(struct snapshot *s)
{
	s->state = SNAPSHOT_DURABLE;
	s->commit_ns = s->opened_ns + 10 * CLOCK_NS_PER_MS;
	s->durable_ns = s->opened_ns + 40 * CLOCK_NS_PER_MS;
	s->verify = job.policy.verify ? VERIFY_QUEUED : VERIFY_NEVER;
	save_stats_save(m, s);
}

static void fail(struct snapshot *s, int rc, const char *text)
{
	*(s->state >= SNAPSHOT_CAPTURED ? &s->storage_rc : &s->rc) = rc;
	snprintf(s->err.text, sizeof(s->err.text), "%s", text);
	save_stats_save(m, s);
}

Test(save_stats, a_save_is_counted_once_at_each_level)
{
	struct snapshot *s = begin(10, true);
	cr_assert_eq(m->nsaves, 1u);
	capture(s);
	save_stats_save(m, s);
	make_durable(s);
	cr_assert_eq(m->ncaptured, 1u);
	cr_assert_eq(m->captured.sum_ns, 5 * CLOCK_NS_PER_MS);
	cr_assert_eq(m->durable.sum_ns, 40 * CLOCK_NS_PER_MS);
	cr_assert_eq(m->write_ns, 30 * CLOCK_NS_PER_MS);
	cr_assert(m->unverified_ns);
	cr_assert_not(m->saves[0].final);
	s->state = SNAPSHOT_VERIFIED;
	s->verified_ns = s->opened_ns + 90 * CLOCK_NS_PER_MS;
	save_stats_save(m, s);
	cr_assert_eq(m->verified.sum_ns, 90 * CLOCK_NS_PER_MS);
	cr_assert_eq(m->verified_id.step, 10u);
	cr_assert(m->saves[0].final && !m->unverified_ns && m->nsaves == 1);
	snapshot_free(s);
}

Test(save_stats, saves_to_memory_do_not_push_out_what_is_on_storage)
{
	struct snapshot *kept = begin(1, true);
	capture(kept);
	for (uint64_t step = 2; step < 200; step++) {
		struct snapshot *s = begin(step, false);
		capture(s);
		snapshot_free(s);
	}
	cr_assert_eq(m->nsaves, (uint32_t)SAVE_STATS_SAVES);
	cr_assert_eq(m->saves[0].id.step, 1u);
	cr_assert_eq(m->saves[SAVE_STATS_SAVES - 1].id.step, 199u);
	cr_assert_eq(m->ncaptured, 199u);
	snapshot_free(kept);
}

Test(save_stats, a_save_whose_record_was_pushed_out_is_not_counted_again)
{
	struct snapshot *slow = begin(1, false);
	capture(slow);
	for (uint64_t step = 2; step < 200; step++) {
		struct snapshot *s = begin(step, false);
		snapshot_free(s);
	}
	make_durable(slow);
	cr_assert_eq(m->ncaptured, 1u);
	const struct save_record *r = &m->saves[SAVE_STATS_SAVES - 1];
	cr_assert_eq(r->id.step, 1u);
	cr_assert_eq(r->captured_ns, 5 * CLOCK_NS_PER_MS);
	snapshot_free(slow);
}

Test(save_stats, failures_are_told_apart)
{
	static const struct {
		int level, rc;
		enum save_failure why;
	} cases[] = {{0, -EIO, SAVE_FAILED_CAPTURE},    {0, -EBADMSG, SAVE_FAILED_TORN},
		     {0, -ESTALE, SAVE_FAILED_EPOCH},   {1, -ECANCELED, SAVE_FAILED_SUPERSEDED},
		     {1, -ENOSPC, SAVE_FAILED_STORAGE}, {2, -EBADMSG, SAVE_FAILED_DAMAGED},
		     {2, -EIO, SAVE_FAILED_STORAGE},    {0, -ECANCELED, SAVE_FAILED_CAPTURE}};
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct snapshot *s = begin(i, true);
		if (cases[i].level > 0)
			capture(s);
		if (cases[i].level > 1)
			make_durable(s);
		uint64_t before = m->failed[cases[i].why];
		fail(s, cases[i].rc, "why");
		save_stats_save(m, s);
		cr_assert_eq(m->failed[cases[i].why], before + 1, "%u", i);
		cr_assert(m->saves[m->nsaves - 1].final);
		snapshot_free(s);
	}
}

Test(save_stats, failures_of_storage_in_a_row_end_with_the_first_success)
{
	for (uint64_t step = 1; step <= 2; step++) {
		struct snapshot *s = begin(step, true);
		capture(s);
		fail(s, -ENOSPC, "no room");
		snapshot_free(s);
	}
	cr_assert_eq(m->storage_failures, 2u);
	cr_assert_eq(m->storage_rc, -ENOSPC);
	cr_assert_str_eq(m->storage_error, "no room");
	struct snapshot *s = begin(3, true);
	capture(s);
	make_durable(s);
	cr_assert_eq(m->storage_failures, 0u);
	snapshot_free(s);
}

Test(save_stats, what_is_not_read_back_is_final_when_it_is_durable)
{
	job.policy.verify = false;
	struct snapshot *s = begin(1, true);
	capture(s);
	cr_assert_not(m->saves[0].final);
	make_durable(s);
	cr_assert(m->saves[0].final && !m->unverified_ns);
	snapshot_free(s);
}
