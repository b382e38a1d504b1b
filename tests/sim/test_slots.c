/* A disk that takes for ever: saves go on being taken into memory, what waits for the disk gives way, and the newest is written when
 * the disk comes back. */
#include "base/clock.h"
#include "base/log.h"
#include "node.h"
#include "pool.h"
#include "store/disk.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 2, ROUNDS = 20000 };

static void daemon_turn(struct node *node, bool disk)
{
	if (disk)
		disk_poll(node->daemon.disk, 0);
	pool_poll(node->daemon.pool);
	SIM_CHECK(job_tick(node->job), "the job has ended");
	clock_advance(CLOCK_NS_PER_MS / 100);
}

static void start(struct node *node, unsigned slots, uint64_t seed)
{
	world_reset(seed);
	node_init(node, RANKS);
	node->slots = slots;
	node_start(node);
	for (uint32_t r = 0; r < RANKS; r++)
		rank_connect(node, &node->ranks[r]);
	for (int i = 0; i < ROUNDS; i++) {
		bool ready = true;
		for (uint32_t r = 0; r < RANKS; r++) {
			rank_listen(node, &node->ranks[r]); /* a step would begin a save at once */
			if (!node->ranks[r].restored)
				rank_step(node, &node->ranks[r]);
			ready &= node->ranks[r].restored;
		}
		if (ready)
			return;
		daemon_turn(node, true);
	}
	SIM_CHECK(false, "the ranks do not come to train");
}

/* What the ranks are shown of a step; -ENOENT: nothing. */
static int shown(const struct node *node, uint64_t step, int *error)
{
	for (int i = 0; i < ARENA_STATUS; i++) {
		const struct arena_status *s = &node->ranks[0].mem->head->status[i];
		if (s->epoch == node->ranks[0].epoch && s->step == step) {
			*error = s->error;
			return s->level;
		}
	}
	*error = -ENOENT;
	return LEVEL_PENDING;
}

/* All ranks save the step, and it is captured. 0, or -EBUSY when a rank found no slot. */
static int save(struct node *node, uint64_t step, uint32_t target)
{
	int error;
	for (uint32_t r = 0; r < RANKS; r++) {
		struct sim_rank *rank = &node->ranks[r];
		rank->next_step = step;
		if (!rank_begin(node, rank, target))
			return -EBUSY;
		while (rank->slot >= 0)
			rank_step(node, rank);
	}
	saves_follow(&node->job->saves);
	for (int i = 0; i < ROUNDS && shown(node, step, &error) < LEVEL_CAPTURED; i++)
		daemon_turn(node, false);
	SIM_CHECK(shown(node, step, &error) >= LEVEL_CAPTURED, "step %lu is not captured: %d", (unsigned long)step,
		  error);
	return 0;
}

static void expect(const struct node *node, uint64_t step, int level, int error)
{
	int is, was = shown(node, step, &is);
	SIM_CHECK(was == level && is == error, "step %lu: level %d, error %d instead of %d and %d", (unsigned long)step,
		  was, is, level, error);
}

static void disk_returns(struct node *node)
{
	for (int i = 0; i < ROUNDS && !saves_idle(&node->job->saves); i++)
		daemon_turn(node, true);
	SIM_CHECK(saves_idle(&node->job->saves), "the saves do not come to an end");
}

static void end(struct node *node)
{
	node_check_store(node);
	node_end(node);
	world_end();
}

static void three_slots(uint64_t seed)
{
	struct node node;
	start(&node, 3, seed);
	SIM_CHECK(!save(&node, 1, SLOT_STORAGE) && !save(&node, 2, SLOT_STORAGE), "two slots");
	expect(&node, 2, LEVEL_CAPTURED, 0);
	for (uint64_t step = 3; step < 40; step++) {
		int rc = save(&node, step, SLOT_MEMORY);
		SIM_CHECK(!rc, "no slot for step %lu while the disk is slow", (unsigned long)step);
		expect(&node, step, LEVEL_CAPTURED, 0);
		/* The one that gave way is told; those that nobody wanted on storage are not troubled. */
		if (step < 30)
			expect(&node, 2, LEVEL_CAPTURED, -ECANCELED);
		if (step > 3)
			expect(&node, step - 1, LEVEL_CAPTURED, 0);
	}
	disk_returns(&node);
	SIM_CHECK(node.job->saves.committed == 2, "%lu commits", (unsigned long)node.job->saves.committed);
	expect(&node, 39, LEVEL_VERIFIED, 0);
	end(&node);
}

/* Nothing waits: saves to memory stay there. */
static void nothing_is_written_that_nobody_asked_for(uint64_t seed)
{
	struct node node;
	start(&node, 3, seed);
	SIM_CHECK(!save(&node, 1, SLOT_STORAGE), "a slot");
	for (uint64_t step = 2; step < 20; step++)
		SIM_CHECK(!save(&node, step, SLOT_MEMORY), "a slot for step %lu", (unsigned long)step);
	disk_returns(&node);
	SIM_CHECK(node.job->saves.committed == 1, "%lu commits", (unsigned long)node.job->saves.committed);
	expect(&node, 19, LEVEL_CAPTURED, 0);
	end(&node);
}

static void four_slots(uint64_t seed)
{
	struct node node;
	start(&node, 4, seed);
	SIM_CHECK(!save(&node, 1, SLOT_STORAGE) && !save(&node, 2, SLOT_STORAGE), "two slots");
	for (uint64_t step = 3; step < 20; step++)
		SIM_CHECK(!save(&node, step, SLOT_MEMORY), "a slot for step %lu", (unsigned long)step);
	expect(&node, 2, LEVEL_CAPTURED, 0);
	SIM_CHECK(!save(&node, 20, SLOT_STORAGE), "a slot");
	expect(&node, 2, LEVEL_CAPTURED, -ECANCELED);
	disk_returns(&node);
	expect(&node, 20, LEVEL_VERIFIED, 0);
	SIM_CHECK(node.job->saves.committed == 2, "%lu commits", (unsigned long)node.job->saves.committed);
	end(&node);
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
	}
	printf("30 runs with a disk that stands still\n");
	return 0;
}
