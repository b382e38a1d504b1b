#include "restore/restore_private.h"

#include "base/clock.h"
#include "daemon.h"

#include <criterion/criterion.h>
#include <string.h>

static struct daemon d;
static struct job job;
static struct rank ranks[3];
static struct recover *const recover = &job.recover;

static void setup(void)
{
	d = (struct daemon){.root = -1};
	job = (struct job){.daemon = &d, .name = "main", .world = 6, .nlocal = 3, .epoch = 2, .ranks = ranks};
	for (uint32_t r = 0; r < 3; r++)
		ranks[r] = (struct rank){.job = &job, .id = 3 + r, .index = r};
	recover_init(recover, &job);
	recover_note_asked(recover);
}

static void teardown(void)
{
	recoveries_free(&job.recoveries);
}

TestSuite(recover_note, .init = setup, .fini = teardown);

Test(recover_note, each_rank_has_where_its_part_came_from)
{
	recover_note_chosen(recover);
	uint64_t chosen = recover->chosen_ns;
	recover_note_begun(recover, UINT64_MAX);
	recover_note_brought(recover, 1 << 0 | 1 << 2, WIRE_FROM_MEMORY, RECOVERY_NOWHERE);
	recover_note_brought(recover, 1 << 1, WIRE_FROM_PEER, 4);
	recover_note_chosen(recover);
	cr_expect_eq(recover->chosen_ns, chosen, "the first choice counts");
	recover_note_answered(recover,
			      &(struct recovery_end){.id = {7, 1}, .source = WIRE_FROM_PEER, .passed_over = ""});
	const struct recovery_record *r = recoveries_at(&job.recoveries, 0);
	cr_assert_eq(r->nparts, 3u);
	cr_expect(r->parts[1].rank == 4 && r->parts[1].source == WIRE_FROM_PEER && r->parts[1].from == 4);
	cr_expect(r->parts[2].rank == 5 && r->parts[2].source == WIRE_FROM_MEMORY);
}

Test(recover_note, reasons_are_added_up_to_the_room_there_is_and_go_with_the_step)
{
	recover_note_skipped(recover, 1 << 1, "memory: %s", "gone");
	recover_note_skipped(recover, 1 << 1, "peer %s: damaged", "b");
	cr_expect_str_eq(recover->parts[1].skipped, "memory: gone; peer b: damaged");
	cr_expect_str_eq(recover->parts[0].skipped, "");
	for (int i = 0; i < 100; i++)
		recover_note_skipped(recover, UINT64_MAX, "peer x: damaged");
	cr_expect_eq(strlen(recover->parts[0].skipped), (size_t)RECOVERY_SKIPPED_MAX - 1);
	recover_note_chosen(recover);
	cr_expect_str_eq(recover->parts[0].skipped, "");
}

Test(recover_note, nothing_to_restore_is_told_after_a_loss_alone)
{
	recover_note_answered(recover, &(struct recovery_end){.passed_over = ""});
	cr_expect_eq(job.recoveries.n, 0u, "a job that begins");
	recoveries_raise(&job, "rank 3 is lost");
	recover_note_answered(recover, &(struct recovery_end){.passed_over = ""});
	cr_assert_eq(job.recoveries.n, 1u);
	cr_expect(!recoveries_at(&job.recoveries, 0)->rc && !recoveries_at(&job.recoveries, 0)->id.epoch);
	cr_expect_eq(job.recoveries.raised_ns, 0u, "the next recovery does not count from there");
}

Test(recover_note, a_refusal_has_no_parts)
{
	recover_note_answered(recover, &(struct recovery_end){.rc = -EBADMSG, .passed_over = "all damaged"});
	cr_assert_eq(job.recoveries.n, 1u);
	cr_expect_eq(recoveries_at(&job.recoveries, 0)->nparts, 0u);
}
