/* What the daemon must not take for a snapshot, whatever a rank's arena says: a copy that is not what the digests of its source
 * describe, and a slot that was filled in an epoch that is over. And a disk that stands still is given up, in time, and every rank is told. */
#include "base/clock.h"
#include "base/log.h"
#include "control/host/outbox.h"
#include "drill.h"
#include "participant/participant.h"
#include "save/saves_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void turns(struct node *node, int n, bool disk)
{
	for (int i = 0; i < n; i++)
		drill_turn(node, disk);
}

/* One bit of the copy, of either rank, flips behind the digests of its source. */
static void a_torn_copy_is_no_snapshot(uint64_t seed)
{
	struct node node;
	uint32_t torn = seed % DRILL_RANKS;
	drill_start(&node, 3, seed);
	for (uint32_t r = 0; r < DRILL_RANKS; r++) {
		struct sim_rank *rank = &node.ranks[r];
		SIM_CHECK(!drill_begin(&node, r, 5, SLOT_STORAGE), "a slot");
		uint32_t slot = (uint32_t)rank->slot;
		while (rank->piece < rank->mem->layout.npieces)
			rank_step(&node, rank);
		if (r == torn)
			memory_slot(rank->mem, slot)[(seed * 4099) % rank->mem->layout.data_bytes] ^= 1u << seed % 8;
		drill_capture(&node, r);
	}
	turns(&node, 200, true);
	drill_finish(&node);
	drill_expect(&node, 5, LEVEL_PENDING, -EBADMSG);
	SIM_CHECK(!node.job->saves.committed, "it was committed");
	SIM_CHECK(!drill_save(&node, 6, SLOT_STORAGE), "a slot");
	drill_finish(&node);
	drill_expect(&node, 6, LEVEL_VERIFIED, 0);
	node.nacks = 0; /* what was fenced and is torn is nowhere, and need not be */
	drill_end(&node);
}

static bool is_at_work(const struct node *node, uint32_t rank)
{
	return node->ranks[rank].restored && node->ranks[rank].epoch == node->job->epoch;
}

/* Both ranks fill and fence a slot under the epoch before theirs, as one would that has not noticed. */
static void a_slot_of_an_epoch_that_is_over_is_given_back(uint64_t seed)
{
	struct node node;
	int slots[DRILL_RANKS];
	drill_start(&node, 3, seed);
	struct step_id stale = {.step = 5, .epoch = node.job->epoch - 1};
	if (!stale.epoch) { /* a second epoch, so that there is one before it */
		uint32_t first = node.job->epoch;
		participant_want(node.job, 0);
		outbox_deliver(&node.daemon.control);
		SIM_CHECK(node.job->epoch > first, "the epoch is not raised");
		for (int i = 0; i < DRILL_ROUNDS && !(is_at_work(&node, 0) && is_at_work(&node, 1)); i++) {
			for (uint32_t r = 0; r < DRILL_RANKS; r++)
				if (!is_at_work(&node, r))
					rank_step(&node, &node.ranks[r]);
			drill_turn(&node, true);
		}
		stale.epoch = node.job->epoch - 1;
	}
	SIM_CHECK(stale.epoch && is_at_work(&node, 0) && is_at_work(&node, 1), "no second epoch");
	for (uint32_t r = 0; r < DRILL_RANKS; r++) {
		SIM_CHECK(!drill_begin(&node, r, stale.step, SLOT_STORAGE), "a slot");
		slots[r] = node.ranks[r].slot;
		node.ranks[r].mem->head->slots[slots[r]].epoch = stale.epoch;
		drill_capture(&node, r);
	}
	saves_follow(&node.job->saves);
	turns(&node, 200, true);
	SIM_CHECK(!saves_find(&node.job->saves, stale), "it was taken for a snapshot");
	for (uint32_t r = 0; r < DRILL_RANKS; r++)
		SIM_CHECK(node.ranks[r].mem->head->slots[slots[r]].state == SLOT_FREE,
			  "rank %u does not get its slot back", r);
	SIM_CHECK(!node.job->saves.committed, "it was committed");
	node.nacks = 0;
	drill_end(&node);
}

static void a_disk_that_stands_still_is_given_up(uint64_t seed)
{
	struct node node;
	drill_start(&node, 3, seed);
	SIM_CHECK(!drill_save(&node, 5, SLOT_STORAGE), "a slot");
	turns(&node, 100, false);
	drill_expect(&node, 5, LEVEL_CAPTURED, 0);
	clock_advance((node.job->policy.stall_timeout_ms + 1) * CLOCK_NS_PER_MS);
	turns(&node, 10, false);
	drill_expect(&node, 5, LEVEL_CAPTURED, -ETIMEDOUT);
	drill_finish(&node);
	drill_end(&node);
}

int main(void)
{
	log_init("sim");
	if (!getenv("CKPT_LOG"))
		log_set_level(LOG_ERROR);
	for (uint64_t seed = 1; seed <= 10; seed++) {
		sim_context(seed, 0);
		a_torn_copy_is_no_snapshot(seed);
		a_slot_of_an_epoch_that_is_over_is_given_back(seed);
		a_disk_that_stands_still_is_given_up(seed);
	}
	printf("30 runs with what is no snapshot\n");
	return 0;
}
