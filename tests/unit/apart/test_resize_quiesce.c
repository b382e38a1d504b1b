/* What a node writes before the world changes (job/resize.h). */
#include "ckptd/job_of.h"
#include "job/resize.h"

#include "fakes.h"
#include "runtime/loop.h"

#include <criterion/criterion.h>
#include <string.h>

static struct daemon daemon;
static struct job job;
static struct snapshot newest;

/* It follows plan 1, and its launcher has offered processes. */
static void setup(void)
{
	struct err err = {{0}};
	fakes_reset();
	daemon_init(&daemon);
	daemon.storage.root = 3;
	daemon.runtime.config.node = "n1";
	cr_assert_eq(loop_new(&daemon.runtime.loop, &err), 0, "%s", err.text);
	job = (struct job){JOB_OF(daemon), .name = "gpt", .resize = {.plan = 1, .offered = true}};
	copying_init(&job);
	newest = (struct snapshot){.id = {7, 1}, .state = SNAPSHOT_CAPTURED};
	fake_saves.job = &job;
	fake_saves.snapshot = &newest;
}

static void teardown(void)
{
	loop_free(daemon.runtime.loop);
}

TestSuite(resize_quiesce, .init = setup, .fini = teardown);

Test(resize_quiesce, it_has_settled_when_what_is_newest_is_on_storage)
{
	resize_quiesce(&job, 1);
	resize_tick(&job);
	resize_tick(&job);
	cr_expect(fake_saves.flushes == 1 && !fake_participant.quiesced);
	newest.state = SNAPSHOT_DURABLE;
	resize_tick(&job);
	cr_expect(fake_participant.quiesced == 1 && fake_participant.said.plan == 1 && fake_participant.said.rc == 0);
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 1);
}

Test(resize_quiesce, what_is_newer_by_then_is_written_as_well)
{
	resize_quiesce(&job, 1);
	resize_tick(&job);
	newest.id.step++;
	resize_tick(&job);
	cr_expect_eq(fake_saves.flushes, 2);
}

/* Their coordinator was lost, and the next one lets them train on. */
Test(resize_quiesce, ranks_that_have_entered_an_epoch_settle_for_nobody)
{
	resize_quiesce(&job, 1);
	resize_tick(&job);
	resize_entered(&job.resize);
	newest.state = SNAPSHOT_DURABLE;
	resize_tick(&job);
	cr_expect(!fake_participant.quiesced && !resize_changes(&job.resize));
	resize_quiesce(&job, 1);
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 1);
}

Test(resize_quiesce, what_cannot_be_written_is_said)
{
	newest.storage_rc = -ENOSPC;
	resize_quiesce(&job, 1);
	resize_tick(&job);
	cr_assert(fake_participant.quiesced == 1 && fake_participant.said.rc == -ENOSPC);
	cr_expect(strstr(fake_participant.said.text, "step 7 is in memory only"), "%s", fake_participant.said.text);
}

Test(resize_quiesce, an_order_for_another_plan_is_not_obeyed)
{
	resize_quiesce(&job, 2);
	resize_tick(&job);
	cr_expect_eq(fake_participant.quiesced, 0);
}
