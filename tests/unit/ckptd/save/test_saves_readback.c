/* What ranks are shown of a snapshot that is durable and has not been read back yet, whatever else becomes known of it meanwhile. */
#include "ckptd/save/saved_job.h"
#include "save/saves_private.h"

#include <criterion/criterion.h>

static struct daemon d;
static struct job job;
static struct rank ranks[MAKER_WORLD];
static struct maker maker;
static struct snapshot *s;

static const struct step_id id = {.step = 7, .epoch = 2};

static void setup(void)
{
	static const uint32_t slots[MAKER_WORLD] = {0};
	saved_job_begin(&d, &job, ranks, &maker, id, false);
	job.policy.verify = true;
	cr_assert_eq(saves_adopt(&job.saves, id, slots), 0);
	s = saves_find(&job.saves, id);
	cr_assert(s);
}

static void teardown(void)
{
	saves_free(&job.saves);
	maker_free(&maker);
}

TestSuite(saves_readback, .init = setup, .fini = teardown);

static void make_durable(enum snapshot_verify verify)
{
	s->durable_ns = s->captured_ns;
	snapshot_set_state(s, SNAPSHOT_DURABLE);
	s->verify = verify;
	snapshot_publish(s);
}

static uint32_t shown_phase(void)
{
	for (int i = 0; i < ARENA_STATUS; i++) {
		const struct arena_status *shown = &maker.mem[0]->head->status[i];
		if (shown->step == id.step && shown->epoch == id.epoch && shown->level == LEVEL_DURABLE)
			return shown->late_phase;
	}
	cr_expect_fail("it is not shown as durable");
	return LATE_NOBODY;
}

/* Its copies on other nodes are complete while the disk reads it: that publishes it anew. */
Test(saves_readback, copies_that_are_complete_meanwhile_do_not_hide_the_read_back)
{
	static const enum snapshot_verify meanwhile[] = {VERIFY_QUEUED, VERIFY_READING, VERIFY_AWAITED, VERIFY_LEFT};
	for (unsigned i = 0; i < sizeof(meanwhile) / sizeof(meanwhile[0]); i++) {
		if (s->state == SNAPSHOT_CAPTURED)
			make_durable(meanwhile[i]);
		s->verify = meanwhile[i];
		s->replicated_ns = 0;
		saves_level(&job.saves, id, LEVEL_REPLICATED);
		cr_assert(s->replicated_ns);
		cr_expect_eq(shown_phase(), LATE_VERIFY, "%u", i);
	}
}

Test(saves_readback, only_the_setting_makes_it_a_dead_end)
{
	make_durable(VERIFY_NEVER);
	cr_expect_eq(shown_phase(), LATE_NOBODY);
	saves_level(&job.saves, id, LEVEL_REPLICATED);
	cr_expect_eq(shown_phase(), LATE_NOBODY);
}

static void overtake(unsigned n)
{
	for (unsigned i = 1; i <= n; i++) {
		struct snapshot *later;
		cr_assert_eq(snapshot_new(&job.saves, (struct step_id){id.step + i, id.epoch}, MAKER_WORLD, &later), 0);
		later->state = SNAPSHOT_DURABLE;
		later->verify = VERIFY_AWAITED;
		for (uint32_t r = 0; r < MAKER_WORLD; r++)
			later->parts[r].state = PART_RELEASED;
		saves_insert(&job.saves, later);
	}
}

/* An older one may wait for ever: the job goes on from the newest. */
Test(saves_readback, a_daemon_that_ends_begins_with_the_newest_or_not_at_all)
{
	make_durable(VERIFY_QUEUED);
	overtake(1);
	d.runtime.stopping = true;
	saves_pump(&job.saves);
	cr_expect_eq(s->verify, VERIFY_QUEUED, "a later one is on storage");

	struct snapshot *later = saves_find(&job.saves, (struct step_id){id.step + 1, id.epoch});
	cr_assert(later);
	later->state = SNAPSHOT_FAILED;
	saves_stop_reading(&job.saves);
	saves_pump(&job.saves);
	cr_expect_eq(s->verify, VERIFY_QUEUED, "nothing is begun any more");
}

/* Another node reads it back, and its word comes after the slots were given to a later one. */
Test(saves_readback, the_word_of_another_node_is_heard_without_the_slots)
{
	make_durable(VERIFY_AWAITED);
	s->damaged = true; /* nobody needs it in memory */
	saves_pump(&job.saves);
	cr_assert_eq(s, saves_find(&job.saves, id));
	cr_expect_eq(s->parts[0].state, PART_RELEASED);
	saves_level(&job.saves, id, LEVEL_VERIFIED);
	bool verified = false;
	for (int i = 0; i < ARENA_STATUS; i++)
		verified |= maker.mem[0]->head->status[i].step == id.step &&
			    maker.mem[0]->head->status[i].level == LEVEL_VERIFIED;
	cr_expect(verified);
	saves_pump(&job.saves);
	cr_expect_not(saves_find(&job.saves, id), "nothing more is to be heard of it");
}

Test(saves_readback, what_is_never_said_of_many_is_not_waited_for_for_ever)
{
	make_durable(VERIFY_AWAITED);
	s->damaged = true;
	overtake(ARENA_STATUS);
	saves_pump(&job.saves);
	cr_expect_not(saves_find(&job.saves, id));
	cr_expect(saves_find(&job.saves, (struct step_id){id.step + 1, id.epoch}));
}
