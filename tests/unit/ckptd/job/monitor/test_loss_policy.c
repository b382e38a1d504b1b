#include "ckptd/job_of.h"
#include "job/monitor/loss_policy.h"

#include "daemon.h"
#include "job/job.h"

#include <criterion/criterion.h>
#include <string.h>

static struct daemon d;
static struct job job;
static const struct loss_found nan_at_700 = {.kind = LOSS_NOT_FINITE, .step = 700};

static void setup(void)
{
	daemon_init(&d);
	job = (struct job){JOB_OF(d), .name = "main", .world = 2, .epoch = 5};
	job.policy.loss_policy = LOSS_ROLLBACK;
}

TestSuite(loss_policy, .init = setup);

static void found(const struct loss_found *f)
{
	loss_policy_act(&job, f, "the loss is bad");
}

static void mark(unsigned place, uint64_t step, uint32_t epoch, bool unhealthy)
{
	job.health_marks.said[place].is = (struct kept_mark){.id = {step, epoch}, .unhealthy = unhealthy};
}

static void expect_back_to(uint64_t step, uint32_t epoch)
{
	const struct loss_policy_state *p = &job.loss_policy;
	cr_expect_eq(p->epoch, job.epoch);
	cr_expect(p->to.to.step == step && p->to.to.epoch == epoch, "step %lu of epoch %u",
		  (unsigned long)p->to.to.step, p->to.to.epoch);
	cr_expect_str_eq(p->to.reason, "the loss is bad");
	cr_expect_not(job.stop);
}

/* It has gone back, and begins from there. */
static void begin_again(uint64_t step, uint32_t epoch)
{
	job.restore.last = (struct step_id){step, epoch};
	job.epoch++;
	loss_policy_tick(&job);
	cr_expect_eq(job.loss_policy.epoch, 0);
}

Test(loss_policy, it_goes_back_to_the_newest_that_is_healthy_and_older_than_the_trouble)
{
	mark(0, 500, 5, false), mark(1, 600, 5, false), mark(2, 650, 5, true), mark(3, 699, 5, false),
		mark(4, 800, 4, false);
	found(&nan_at_700);
	expect_back_to(600, 5);
}

Test(loss_policy, without_marks_it_goes_back_to_before_the_trouble)
{
	found(&nan_at_700);
	expect_back_to(698, 5);
}

Test(loss_policy, a_divergence_began_when_the_loss_was_best)
{
	found(&(struct loss_found){.kind = LOSS_DIVERGED, .step = 700, .best_step = 400});
	expect_back_to(398, 5);
}

Test(loss_policy, what_was_given_up_is_not_healthy_again)
{
	mark(0, 900, 4, false), mark(1, 200, 4, false);
	job.restore.back = (struct rollbacks){1, {{5, {300, 4}}}};
	found(&nan_at_700);
	expect_back_to(200, 4);
}

Test(loss_policy, the_same_trouble_leads_further_back_and_the_third_time_to_the_end)
{
	found(&nan_at_700);
	begin_again(600, 5);
	found(&nan_at_700);
	expect_back_to(599, 5);
	begin_again(0, 5);
	found(&nan_at_700);
	cr_expect(job.stop);
	cr_expect_eq(job.loss_policy.epoch, 0);
}

Test(loss_policy, another_trouble_far_behind_is_none_that_came_again)
{
	found(&nan_at_700);
	begin_again(600, 5);
	for (uint64_t step = 1000; step < 4000; step += 1000) {
		found(&(struct loss_found){.kind = LOSS_NOT_FINITE, .step = step});
		expect_back_to(step - 2, job.epoch);
		begin_again(step - 100, job.epoch);
	}
}

Test(loss_policy, who_was_asked_is_asked_again_as_long_as_no_epoch_begins)
{
	found(&nan_at_700);
	uint64_t first = job.loss_policy.again_ns;
	loss_policy_tick(&job);
	cr_expect_eq(job.loss_policy.again_ns, first);
	job.loss_policy.again_ns = 1;
	loss_policy_tick(&job);
	cr_expect_geq(job.loss_policy.again_ns, first);
	found(&(struct loss_found){.kind = LOSS_NOT_FINITE, .step = 720});
	expect_back_to(698, 5);
	cr_expect_eq(job.loss_policy.times, 1);
}

Test(loss_policy, a_spike_and_a_job_that_ends_are_left_alone_and_so_is_one_whose_policy_is_to_warn)
{
	found(&(struct loss_found){.kind = LOSS_SPIKE, .step = 700});
	job.stop = true;
	found(&nan_at_700);
	job.stop = false;
	job.policy.loss_policy = LOSS_WARN;
	found(&nan_at_700);
	cr_expect(!job.loss_policy.epoch && !job.stop);
}
