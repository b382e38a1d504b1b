#include "drill.h"

#include "base/clock.h"
#include "control/host/coordinator_host.h"
#include "control/host/outbox.h"
#include "runtime/workers.h"
#include "store/disk/disk.h"

#include <errno.h>

void drill_turn(struct node *node, bool disk)
{
	if (disk)
		disk_poll(node->daemon.storage.disk, 0);
	pool_poll(node->daemon.runtime.pool);
	hosts_tick(&node->daemon.control, clock_now());
	SIM_CHECK(job_tick(node->job), "the job has ended");
	outbox_deliver(&node->daemon.control);
	clock_advance(CLOCK_NS_PER_MS / 100);
}

void drill_start(struct node *node, unsigned slots, uint64_t seed)
{
	world_reset(seed);
	node_init(node, DRILL_RANKS);
	node->slots = slots;
	node_start(node);
	for (uint32_t r = 0; r < DRILL_RANKS; r++)
		rank_connect(node, &node->ranks[r]);
	for (int i = 0; i < DRILL_ROUNDS; i++) {
		bool ready = true;
		for (uint32_t r = 0; r < DRILL_RANKS; r++) {
			rank_listen(node, &node->ranks[r]); /* a step would begin a save at once */
			if (!node->ranks[r].restored)
				rank_step(node, &node->ranks[r]);
			ready &= node->ranks[r].restored;
		}
		if (ready)
			return;
		drill_turn(node, true);
	}
	SIM_CHECK(false, "the ranks do not come to train");
}

int drill_shown(const struct node *node, uint32_t rank, uint64_t step, int *error)
{
	for (int i = 0; i < ARENA_STATUS; i++) {
		const struct arena_status *s = &node->ranks[rank].mem->head->status[i];
		if (s->epoch == node->ranks[rank].epoch && s->step == step) {
			*error = s->error;
			return s->level;
		}
	}
	*error = -ENOENT;
	return LEVEL_PENDING;
}

int drill_begin(struct node *node, uint32_t rank, uint64_t step, uint32_t target)
{
	struct sim_rank *r = &node->ranks[rank];
	r->next_step = step;
	return rank_begin(node, r, target) ? 0 : -EBUSY;
}

void drill_capture(struct node *node, uint32_t rank)
{
	while (node->ranks[rank].slot >= 0)
		rank_step(node, &node->ranks[rank]);
}

int drill_save(struct node *node, uint64_t step, uint32_t target)
{
	int error;
	for (uint32_t r = 0; r < DRILL_RANKS; r++) {
		int rc = drill_begin(node, r, step, target);
		if (rc)
			return rc;
		drill_capture(node, r);
	}
	saves_follow(&node->job->saves);
	for (int i = 0; i < DRILL_ROUNDS && drill_shown(node, 0, step, &error) < LEVEL_CAPTURED; i++)
		drill_turn(node, false);
	SIM_CHECK(drill_shown(node, 0, step, &error) >= LEVEL_CAPTURED, "step %lu is not captured: %d",
		  (unsigned long)step, error);
	return 0;
}

void drill_expect(const struct node *node, uint64_t step, int level, int error)
{
	for (uint32_t r = 0; r < DRILL_RANKS; r++) {
		int is, was = drill_shown(node, r, step, &is);
		SIM_CHECK(was == level && is == error, "step %lu, rank %u: level %d, error %d instead of %d and %d",
			  (unsigned long)step, r, was, is, level, error);
	}
}

void drill_finish(struct node *node)
{
	for (int i = 0; i < DRILL_ROUNDS && !job_idle(node->job); i++)
		drill_turn(node, true);
	SIM_CHECK(job_idle(node->job), "the saves do not come to an end");
}

void drill_end(struct node *node)
{
	node_check_store(node);
	node_end(node);
	world_end();
}
