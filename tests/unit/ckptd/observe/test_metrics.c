#include "ckptd/job_of.h"
#include "observe/metrics.h"

#include "base/clock.h"
#include "daemon.h"
#include "job/job.h"
#include "job/saving.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct daemon d;
static struct job job;
static struct rank ranks[1];
static struct wbuf out;

static void setup(void)
{
	daemon_init(&d);
	d.runtime.config = (struct config){.store = "/store", .node = "n0", .memory_limit = 1000};
	d.runtime.memory.arenas = 7;
	d.storage.root = 0;
	list_init(&d.jobs.list);
	job = (struct job){JOB_OF(d), .name = "a\"b\\c\nd", .world = 1, .nlocal = 1, .epoch = 3, .ranks = ranks};
	ranks[0] = (struct rank){.job = &job, .state = RANK_JOINED};
	copying_init(&job);
	job_init_saves(&job);
	out = (struct wbuf){0};
}

static void teardown(void)
{
	wbuf_free(&out);
}

TestSuite(metrics, .init = setup, .fini = teardown);

static const char *text(void)
{
	cr_assert_eq(metrics_encode(&d.observe, &out), 0);
	wbuf_u8(&out, 0);
	return (const char *)out.data;
}

Test(metrics, a_daemon_without_jobs_tells_of_itself)
{
	const char *t = text();
	cr_assert(strstr(t, "\nckpt_memory_used_bytes 7\n"));
	cr_assert(strstr(t, "\nckpt_health_status 0\n"));
	cr_assert(strstr(t, ",node=\"n0\"} 1\n"));
}

Test(metrics, names_of_jobs_are_escaped)
{
	list_push(&d.jobs.list, &job.link);
	cr_assert(strstr(text(), "\nckpt_job_epoch{job_name=\"a\\\"b\\\\c\\nd\"} 3\n"));
}

Test(metrics, buckets_are_cumulative_and_end_with_all)
{
	list_push(&d.jobs.list, &job.link);
	snprintf(job.name, sizeof(job.name), "j");
	histogram_add(&job.save_stats.captured, 3 * CLOCK_NS_PER_MS, 2);
	histogram_add(&job.save_stats.captured, 1000 * CLOCK_NS_PER_S, 1);
	const char *t = text();
	cr_assert(strstr(t, "\nckpt_save_captured_seconds_bucket{job_name=\"j\",le=\"0.0025\"} 0\n"));
	cr_assert(strstr(t, "\nckpt_save_captured_seconds_bucket{job_name=\"j\",le=\"0.005\"} 2\n"));
	cr_assert(strstr(t, "\nckpt_save_captured_seconds_bucket{job_name=\"j\",le=\"500\"} 2\n"));
	cr_assert(strstr(t, "\nckpt_save_captured_seconds_bucket{job_name=\"j\",le=\"+Inf\"} 3\n"));
	cr_assert(strstr(t, "\nckpt_save_captured_seconds_sum{job_name=\"j\"} 1000.006000000\n"));
	cr_assert(strstr(t, "\nckpt_save_captured_seconds_count{job_name=\"j\"} 3\n"));
}

Test(metrics, a_finding_has_its_code_and_job)
{
	list_push(&d.jobs.list, &job.link);
	snprintf(job.name, sizeof(job.name), "j");
	ranks[0].hung = true;
	const char *t = text();
	cr_assert(strstr(t, "\nckpt_health_status 2\n"));
	cr_assert(strstr(t, "\nckpt_health_finding{code=\"RANK_HUNG\",job_name=\"j\"} 1\n"));
	cr_assert(strstr(t, "\nckpt_rank_hung{job_name=\"j\",rank=\"0\"} 1\n"));
}

Test(metrics, a_rank_that_is_compared_tells_whether_it_is_a_straggler)
{
	struct arena_head *head = calloc(1, sizeof(*head));
	struct memory mem = {.head = head};
	list_push(&d.jobs.list, &job.link);
	snprintf(job.name, sizeof(job.name), "j");
	ranks[0].mem = &mem;
	head->waited.ns = 1500 * CLOCK_NS_PER_MS;
	cr_assert(strstr(text(), "\nckpt_rank_collective_seconds_total{job_name=\"j\",rank=\"0\"} 1.500000000\n"));
	cr_assert_not(strstr((const char *)out.data, "\nckpt_rank_straggler{"));
	job.stragglers.ranks[0] = (struct straggler_rank){.compared = true, .late = true, .cost = 0.25};
	out.len = 0;
	const char *t = text();
	cr_assert(strstr(t, "\nckpt_rank_straggler{job_name=\"j\",rank=\"0\"} 1\n"));
	cr_assert(strstr(t, "\nckpt_rank_straggler_cost_ratio{job_name=\"j\",rank=\"0\"} 0.25\n"));
	cr_assert_not(strstr(t, "\nckpt_node_straggler{"), "it is on this node alone");
	free(head);
}

Test(metrics, of_a_job_on_several_nodes_each_tells_how_many_are_stragglers_and_whether_it_is_one)
{
	list_push(&d.jobs.list, &job.link);
	snprintf(job.name, sizeof(job.name), "j");
	d.runtime.config.node = "b";
	job.spread = true;
	struct straggler_episode *e = job.stragglers.episodes;
	e[0] = (struct straggler_episode){.rank = 7, .node = "a"};
	e[1] = (struct straggler_episode){.whole = true, .node = "b", .until_wall_ns = 1};
	job.stragglers.nepisodes = 2;
	cr_assert(strstr(text(), "\nckpt_job_stragglers{job_name=\"j\"} 1\n"));
	cr_assert(strstr((const char *)out.data, "\nckpt_node_straggler{job_name=\"j\"} 0\n"), "it was one");
	e[1] = (struct straggler_episode){.whole = true, .node = "b", .lasted_ns = 4, .lost_ns = 1};
	out.len = 0;
	const char *t = text();
	cr_assert(strstr(t, "\nckpt_job_stragglers{job_name=\"j\"} 2\n"));
	cr_assert(strstr(t, "\nckpt_node_straggler{job_name=\"j\"} 1\n"));
	cr_assert(strstr(t, "\nckpt_node_straggler_cost_ratio{job_name=\"j\"} 0.25\n"));
}

Test(metrics, losses_are_told_by_kind_and_the_time_between_them)
{
	list_push(&d.jobs.list, &job.link);
	snprintf(job.name, sizeof(job.name), "j");
	job.recovery_log.since_ns = clock_now() - 100 * CLOCK_NS_PER_S;
	job.recovery_log.losses[WIRE_FROM_PEER][LOST_NODE] = 1;
	job.recovery_log.losses[WIRE_FROM_MEMORY][LOST_HANG] = 3;
	const char *t = text();
	cr_assert(strstr(t, "\nckpt_losses_by_kind_total{job_name=\"j\",kind=\"node\"} 1\n"));
	cr_assert(strstr(t, "\nckpt_losses_by_kind_total{job_name=\"j\",kind=\"hang\"} 3\n"));
	cr_assert(strstr(t, "\nckpt_losses_by_kind_total{job_name=\"j\",kind=\"rank\"} 0\n"));
	cr_assert(strstr(t, "\nckpt_losses_total{job_name=\"j\",source=\"memory\"} 3\n"));
	cr_assert(strstr(t, "\nckpt_between_losses_seconds{job_name=\"j\",kind=\"node\"} 10"));
	cr_assert(strstr(t, "\nckpt_between_losses_seconds{job_name=\"j\",kind=\"hang\"} 33"));
	cr_assert_not(strstr(t, "ckpt_between_losses_seconds{job_name=\"j\",kind=\"rank\"}"));
}

Test(metrics, a_job_that_hands_over_losses_has_them)
{
	list_push(&d.jobs.list, &job.link);
	snprintf(job.name, sizeof(job.name), "j");
	cr_assert(strstr(text(), "\nckpt_loss_troubles_total{job_name=\"j\",kind=\"not-finite\"} 0\n"));
	cr_assert_not(strstr((const char *)out.data, "\nckpt_job_loss{"));
	loss_step(&job.loss.now, 1, 2.5, -1);
	out.len = 0;
	cr_assert(strstr(text(), "\nckpt_job_loss{job_name=\"j\"} 2.5\n"));
	cr_assert_not(strstr((const char *)out.data, "\nckpt_job_gradient_norm{"), "it was not given");
	loss_step(&job.loss.now, 2, NAN, INFINITY);
	job.loss.counts[LOSS_NOT_FINITE] = 3;
	out.len = 0;
	const char *t = text();
	cr_assert(strstr(t, "\nckpt_job_loss{job_name=\"j\"} NaN\n"));
	cr_assert(strstr(t, "\nckpt_job_gradient_norm{job_name=\"j\"} +Inf\n"));
	cr_assert(strstr(t, "\nckpt_loss_troubles_total{job_name=\"j\",kind=\"spike\"} 0\n"));
	cr_assert(strstr(t, "\nckpt_loss_troubles_total{job_name=\"j\",kind=\"not-finite\"} 3\n"));
}
