#include "ckptd/job_of.h"
#include "observe/health.h"

#include "base/clock.h"
#include "daemon.h"
#include "job/job.h"
#include "job/recovery_notes.h"
#include "job/saving.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct daemon d;
static struct job job;
static struct rank ranks[2];
static struct memory mem[2];
static struct finding found[HEALTH_MAX];
static unsigned n;
static enum health_severity severity;

static void setup(void)
{
	daemon_init(&d);
	d.runtime.config = (struct config){.store = "/store", .node = "n0", .memory_limit = 1000};
	d.storage.root = 0;
	list_init(&d.jobs.list);
	job = (struct job){JOB_OF(d),
			   .name = "main",
			   .world = 2,
			   .nlocal = 2,
			   .epoch = 3,
			   .ranks = ranks,
			   .policy = {.verify = true, .join_timeout_ms = 1000}};
	for (uint32_t r = 0; r < 2; r++) {
		ranks[r] = (struct rank){.job = &job, .id = r, .state = RANK_JOINED, .mem = &mem[r]};
		mem[r] = (struct memory){.size = 4 << 20, .huge_bytes = 4 << 20, .settled = true};
	}
	copying_init(&job);
	job_init_saves(&job);
	list_push(&d.jobs.list, &job.link);
	job_init_recoveries(&job);
}

TestSuite(health, .init = setup);

static const struct finding *find(enum health_code code)
{
	n = health_find(&d.observe, found, HEALTH_MAX, &severity);
	for (unsigned i = 0; i < n; i++)
		if (found[i].code == code)
			return &found[i];
	return NULL;
}

Test(health, nothing_wrong_is_ok)
{
	cr_assert_eq(health_find(&d.observe, found, HEALTH_MAX, &severity), 0u);
	cr_assert_str_eq(health_status_name(severity), "ok");
}

Test(health, a_store_that_is_not_where_its_path_leads_fails)
{
	cr_assert_null(find(HEALTH_STORE_MISSING));
	err_set(&d.storage.place.trouble, -ENOENT, "the store /store is gone");
	cr_assert_str_eq(find(HEALTH_STORE_MISSING)->text, "the store /store is gone");
	cr_assert_eq(severity, HEALTH_FAILING);
}

Test(health, notices_leave_the_status_ok)
{
	d.runtime.config.store = NULL;
	d.runtime.memory.arenas = 990;
	mem[1].unpinned = -ENOMEM;
	mem[0].huge_bytes = 0;
	cr_assert(find(HEALTH_NO_STORE) && find(HEALTH_MEMORY_FULL) && find(HEALTH_MEMLOCK) &&
		  find(HEALTH_NO_HUGE_PAGES));
	cr_assert_str_eq(health_status_name(severity), "ok");
	d.runtime.config.huge_pages = HUGE_PAGES_NEVER; /* as was wanted */
	cr_assert_null(find(HEALTH_NO_HUGE_PAGES));
}

Test(health, one_failed_save_degrades_and_three_fail)
{
	job.save_stats.storage_failures = 1;
	job.save_stats.storage_rc = -EIO;
	snprintf(job.save_stats.storage_error, sizeof(job.save_stats.storage_error), "cannot write x");
	const struct finding *f = find(HEALTH_SAVE_FAILING);
	cr_assert(f && f->severity == HEALTH_DEGRADED && strstr(f->text, "cannot write x"));
	cr_assert_str_eq(f->job, "main");
	job.save_stats.storage_failures = 3;
	cr_assert_eq(find(HEALTH_SAVE_FAILING)->severity, HEALTH_FAILING);
}

Test(health, the_reason_of_the_failure_has_a_code_of_its_own)
{
	job.save_stats.storage_failures = 1;
	job.save_stats.storage_rc = -EROFS;
	cr_assert(find(HEALTH_STORE_READ_ONLY));
	job.save_stats.storage_rc = -ENOSPC;
	cr_assert(find(HEALTH_STORE_FULL) && !find(HEALTH_SAVE_FAILING));
	cr_assert_str_eq(health_status_name(severity), "failing");
}

Test(health, what_waits_long_to_be_read_back_degrades)
{
	job.save_stats.unverified_ns = clock_now() - CLOCK_NS_PER_S;
	cr_assert_null(find(HEALTH_NOT_VERIFIED));
	job.save_stats.unverified_ns = clock_now() - 3600 * CLOCK_NS_PER_S;
	cr_assert(find(HEALTH_NOT_VERIFIED));
	cr_assert_eq(severity, HEALTH_DEGRADED);
}

Test(health, damage_hangs_and_refused_restores_are_failing)
{
	job.save_stats.damaged_id = (struct step_id){7, 3};
	cr_assert(strstr(find(HEALTH_DAMAGED)->text, "step 7 epoch 3"));
	save_stats_reread(&job.save_stats, (struct step_id){6, 3}, false);
	cr_assert(find(HEALTH_DAMAGED), "another one is intact");
	save_stats_reread(&job.save_stats, (struct step_id){7, 3}, false);
	cr_assert_null(find(HEALTH_DAMAGED), "it was repaired");
	save_stats_reread(&job.save_stats, (struct step_id){5, 3}, true);
	cr_assert(strstr(find(HEALTH_DAMAGED)->text, "step 5 epoch 3"));
	ranks[1].hung = true;
	cr_assert(strstr(find(HEALTH_RANK_HUNG)->text, "rank 1"));
	cr_assert_null(find(HEALTH_STANDSTILL));
	job.standstill = (struct standstill){.is = true, .since_ns = clock_now(), .text = "rank 7 is waited for"};
	cr_assert(strstr(find(HEALTH_RANK_HUNG)->text, "; rank 7 is waited for"));
	cr_assert(strstr(find(HEALTH_STANDSTILL)->text, "rank 7 is waited for"));
	cr_assert_eq(find(HEALTH_STANDSTILL)->severity, HEALTH_NOTICE);
	job.standstill.is = false;
	recoveries_answered(&job.recovery_log,
			    &(struct recovery_end){.rc = -EBADMSG, .passed_over = "no intact checkpoint is left"});
	cr_assert(strstr(find(HEALTH_RESTORE_FAILED)->text, "no intact"));
	recoveries_answered(&job.recovery_log, &(struct recovery_end){.id = {7, 3}, .source = 1, .passed_over = ""});
	cr_assert_null(find(HEALTH_RESTORE_FAILED));
}

Test(health, missing_ranks_are_told_after_the_time_to_join)
{
	ranks[1].state = RANK_ABSENT;
	recoveries_raise(&job.recovery_log, "rank 1 is lost", LOST_RANK);
	cr_assert_null(find(HEALTH_RANKS_MISSING));
	job.recovery_log.raised_ns = clock_now() - 2 * CLOCK_NS_PER_S;
	cr_assert(find(HEALTH_RANKS_MISSING));
}

Test(health, the_worst_comes_first_and_the_number_is_bounded)
{
	d.runtime.config.store = NULL;
	job.save_stats.damaged_id = (struct step_id){7, 3};
	cr_assert_eq(health_find(&d.observe, found, HEALTH_MAX, &severity), 2u);
	cr_assert_eq(found[0].code, HEALTH_DAMAGED);
	cr_assert_eq(health_find(&d.observe, found, 1, &severity), 1u);
}

Test(health, where_there_are_too_many_the_mild_ones_are_left_out)
{
	d.runtime.config.store = NULL;
	job.save_stats.damaged_id = (struct step_id){7, 3};
	mem[0].huge_bytes = 0;
	cr_assert_eq(health_find(&d.observe, found, HEALTH_MAX, &severity), 3u);
	cr_assert_eq(health_find(&d.observe, found, 1, &severity), 1u);
	cr_expect_eq(found[0].code, HEALTH_DAMAGED);
	cr_expect_eq(severity, HEALTH_FAILING);
	job.save_stats.damaged_id.epoch = 0;
	job.save_stats.storage_failures = 3;
	job.save_stats.unverified_ns = clock_now() - 3600 * CLOCK_NS_PER_S;
	cr_assert_eq(health_find(&d.observe, found, 1, &severity), 1u);
	cr_expect_eq(severity, HEALTH_FAILING);
}

Test(health, every_code_has_a_name_and_a_remedy)
{
	for (int code = 0; code < HEALTH_CODE_END; code++)
		cr_assert(health_code_name((enum health_code)code) &&
			  strlen(health_remedy((enum health_code)code)) > 20);
}

Test(health, a_straggler_is_a_notice_with_its_rank_and_its_cost)
{
	struct straggler_episode *e = &job.stragglers.episodes[0];
	*e = (struct straggler_episode){.rank = 3, .lasted_ns = 100, .lost_ns = 31, .ratio = 1.8};
	cr_assert_null(find(HEALTH_STRAGGLER));
	job.stragglers.nepisodes = 1;
	const struct finding *f = find(HEALTH_STRAGGLER);
	cr_assert(f && f->severity == HEALTH_NOTICE);
	cr_assert(strstr(f->text, "rank 3 is a straggler") && strstr(f->text, "1.8 times") && strstr(f->text, "31%"),
		  "%s", f->text);
	e->until_wall_ns = 1;
	cr_assert_null(find(HEALTH_STRAGGLER), "it was one");
	*e = (struct straggler_episode){.whole = true, .node = "b", .spread = true};
	f = find(HEALTH_STRAGGLER);
	cr_assert(f && strstr(f->text, "node b is a straggler"), "also one that is elsewhere");
}

Test(health, a_loss_that_goes_wrong_is_told_while_it_lasts)
{
	static const struct {
		enum loss_trouble kind;
		enum health_code code;
		enum health_severity severity;
		const char *text;
	} all[] = {{LOSS_SPIKE, HEALTH_LOSS_SPIKE, HEALTH_NOTICE, "step 7, the third in a row"},
		   {LOSS_DIVERGED, HEALTH_LOSS_DIVERGED, HEALTH_DEGRADED, "rises for good"},
		   {LOSS_NOT_FINITE, HEALTH_LOSS_NOT_FINITE, HEALTH_DEGRADED, "step 7 is NaN, as rank 3 says"}};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct loss_episode *e = &job.loss.episodes[i];
		*e = (struct loss_episode){.found = {.kind = all[i].kind, .step = 7, .value = NAN},
					   .by_rank = all[i].kind == LOSS_NOT_FINITE,
					   .rank = 3};
		cr_assert_null(find(all[i].code));
		job.loss.nepisodes = i + 1;
		const struct finding *f = find(all[i].code);
		cr_assert(f && f->severity == all[i].severity);
		cr_assert(strstr(f->text, all[i].text), "%s", f->text);
		e->until_wall_ns = 1;
		cr_assert_null(find(all[i].code), "it was so");
	}
}
