/* A disk that takes for ever: saves go on being taken into memory, what waits for the disk gives way, and the newest is written when
 * the disk comes back. */
#include "base/log.h"
#include "drill.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void three_slots(uint64_t seed)
{
	struct node node;
	drill_start(&node, 3, seed);
	SIM_CHECK(!drill_save(&node, 1, SLOT_STORAGE) && !drill_save(&node, 2, SLOT_STORAGE), "two slots");
	drill_expect(&node, 2, LEVEL_CAPTURED, 0);
	for (uint64_t step = 3; step < 40; step++) {
		int rc = drill_save(&node, step, SLOT_MEMORY);
		SIM_CHECK(!rc, "no slot for step %lu while the disk is slow", (unsigned long)step);
		drill_expect(&node, step, LEVEL_CAPTURED, 0);
		/* The one that gave way is told; those that nobody wanted on storage are not troubled. */
		if (step < 30)
			drill_expect(&node, 2, LEVEL_CAPTURED, -ECANCELED);
		if (step > 3)
			drill_expect(&node, step - 1, LEVEL_CAPTURED, 0);
	}
	drill_finish(&node);
	SIM_CHECK(node.job->saves.committed == 2, "%lu commits", (unsigned long)node.job->saves.committed);
	drill_expect(&node, 39, LEVEL_VERIFIED, 0);
	drill_end(&node);
}

/* Nothing waits: saves to memory stay there. */
static void nothing_is_written_that_nobody_asked_for(uint64_t seed)
{
	struct node node;
	drill_start(&node, 3, seed);
	SIM_CHECK(!drill_save(&node, 1, SLOT_STORAGE), "a slot");
	for (uint64_t step = 2; step < 20; step++)
		SIM_CHECK(!drill_save(&node, step, SLOT_MEMORY), "a slot for step %lu", (unsigned long)step);
	drill_finish(&node);
	SIM_CHECK(node.job->saves.committed == 1, "%lu commits", (unsigned long)node.job->saves.committed);
	drill_expect(&node, 19, LEVEL_CAPTURED, 0);
	drill_end(&node);
}

static void four_slots(uint64_t seed)
{
	struct node node;
	drill_start(&node, 4, seed);
	SIM_CHECK(!drill_save(&node, 1, SLOT_STORAGE) && !drill_save(&node, 2, SLOT_STORAGE), "two slots");
	for (uint64_t step = 3; step < 20; step++)
		SIM_CHECK(!drill_save(&node, step, SLOT_MEMORY), "a slot for step %lu", (unsigned long)step);
	drill_expect(&node, 2, LEVEL_CAPTURED, 0);
	SIM_CHECK(!drill_save(&node, 20, SLOT_STORAGE), "a slot");
	drill_expect(&node, 2, LEVEL_CAPTURED, -ECANCELED);
	drill_finish(&node);
	drill_expect(&node, 20, LEVEL_VERIFIED, 0);
	SIM_CHECK(node.job->saves.committed == 2, "%lu commits", (unsigned long)node.job->saves.committed);
	drill_end(&node);
}

/* A rank that has no slot for a step never begins it: who has begun it, or begins it later, holds no slot for that. */
static void nobody_waits_for_a_rank_without_a_slot(uint64_t seed)
{
	struct node node;
	drill_start(&node, 3, seed);
	uint32_t epoch = node.ranks[0].epoch;
	for (uint64_t step = 1; step < 20; step++) {
		bool before = step % 2;
		if (before)
			arena_leave_out(node.ranks[1].mem->head, (struct step_id){.step = step, .epoch = epoch});
		SIM_CHECK(!drill_begin(&node, 0, step, SLOT_MEMORY), "no slot for step %lu", (unsigned long)step);
		saves_follow(&node.job->saves);
		if (!before) {
			drill_expect(&node, step, LEVEL_PENDING, 0);
			arena_leave_out(node.ranks[1].mem->head, (struct step_id){.step = step, .epoch = epoch});
			saves_follow(&node.job->saves);
		}
		drill_expect(&node, step, LEVEL_PENDING, -ECANCELED);
		drill_capture(&node, 0);
		saves_follow(&node.job->saves);
	}
	SIM_CHECK(!drill_save(&node, 20, SLOT_MEMORY), "no slot for a step that all have");
	drill_end(&node);
}

int main(void)
{
	log_init("sim");
	if (!getenv("CKPT_LOG"))
		log_set_level(LOG_ERROR);
	for (uint64_t seed = 1; seed <= 10; seed++) {
		sim_context(seed, 0);
		three_slots(seed);
		nothing_is_written_that_nobody_asked_for(seed);
		four_slots(seed);
		nobody_waits_for_a_rank_without_a_slot(seed);
	}
	printf("30 runs with a disk that stands still, 10 with a rank that lacks slots\n");
	return 0;
}
