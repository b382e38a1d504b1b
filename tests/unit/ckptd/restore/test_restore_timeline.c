#include "ckptd/job_of.h"
#include "restore/restore_private.h"

#include "base/clock.h"
#include "daemon.h"
#include "job/restoring.h"
#include "job/room.h"

#include <criterion/criterion.h>
#include <string.h>

static struct daemon d;
static struct job job;
static struct rank ranks[3];
static struct restore *const restore = &job.restore;

static void setup(void)
{
	daemon_init(&d);
	job = (struct job){JOB_OF(d), .name = "main", .world = 6, .nlocal = 3, .epoch = 2, .ranks = ranks};
	for (uint32_t r = 0; r < 3; r++)
		ranks[r] = (struct rank){.job = &job, .id = 3 + r, .index = r};
	job_init_restore(&job);
	job_init_recoveries(&job);
	restore_note_asked(restore);
}

static void teardown(void)
{
	recoveries_free(&job.recovery_log);
}

TestSuite(restore_note, .init = setup, .fini = teardown);

Test(restore_note, each_rank_has_where_its_part_came_from)
{
	restore_note_chosen(restore);
	uint64_t chosen = restore->chosen_ns;
	restore_note_begun(restore, UINT64_MAX);
	restore_note_brought(restore, 1 << 0 | 1 << 2, WIRE_FROM_MEMORY, RECOVERY_NOWHERE);
	restore_note_brought(restore, 1 << 1, WIRE_FROM_PEER, 4);
	restore_note_chosen(restore);
	cr_expect_eq(restore->chosen_ns, chosen, "the first choice counts");
	restore_note_answered(restore,
			      &(struct recovery_end){.id = {7, 1}, .source = WIRE_FROM_PEER, .passed_over = ""});
	const struct recovery_record *r = recoveries_at(&job.recovery_log, 0);
	cr_assert_eq(r->nparts, 3u);
	cr_expect(r->parts[1].rank == 4 && r->parts[1].source == WIRE_FROM_PEER && r->parts[1].from == 4);
	cr_expect(r->parts[2].rank == 5 && r->parts[2].source == WIRE_FROM_MEMORY);
}

Test(restore_note, reasons_are_added_up_to_the_room_there_is_and_go_with_the_step)
{
	restore_note_skipped(restore, 1 << 1, "memory: %s", "gone");
	restore_note_skipped(restore, 1 << 1, "peer %s: damaged", "b");
	cr_expect_str_eq(restore->parts[1].skipped, "memory: gone; peer b: damaged");
	cr_expect_str_eq(restore->parts[0].skipped, "");
	for (int i = 0; i < 100; i++)
		restore_note_skipped(restore, UINT64_MAX, "peer x: damaged");
	cr_expect_eq(strlen(restore->parts[0].skipped), (size_t)RECOVERY_SKIPPED_MAX - 1);
	restore_note_chosen(restore);
	cr_expect_str_eq(restore->parts[0].skipped, "");
}

Test(restore_note, nothing_to_restore_is_told_after_a_loss_alone)
{
	restore_note_answered(restore, &(struct recovery_end){.passed_over = ""});
	cr_expect_eq(job.recovery_log.n, 0u, "a job that begins");
	recoveries_raise(&job.recovery_log, "rank 3 is lost", LOST_RANK);
	restore_note_answered(restore, &(struct recovery_end){.passed_over = ""});
	cr_assert_eq(job.recovery_log.n, 1u);
	cr_expect(!recoveries_at(&job.recovery_log, 0)->rc && !recoveries_at(&job.recovery_log, 0)->id.epoch);
	cr_expect_eq(job.recovery_log.raised_ns, 0u, "the next recovery does not count from there");
}

Test(restore_note, a_refusal_has_no_parts)
{
	restore_note_answered(restore, &(struct recovery_end){.rc = -EBADMSG, .passed_over = "all damaged"});
	cr_assert_eq(job.recovery_log.n, 1u);
	cr_expect_eq(recoveries_at(&job.recovery_log, 0)->nparts, 0u);
}
