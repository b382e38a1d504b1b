/* Seeded random schedules of saves, lost ranks, dying daemons and power cuts, with a disk that fails, tears and reorders.
 * Usage: sim_save [FIRST [COUNT]]; CKPT_NIGHTLY=1 runs more. A failing seed replays with sim_save SEED 1. */
#include "base/log.h"
#include "node.h"
#include "rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
enum { EVENTS = 1500, SEEDS = 80, SEEDS_NIGHTLY = 5000 };
#else
enum { EVENTS = 1500, SEEDS = 300, SEEDS_NIGHTLY = 20000 };
#endif

struct totals {
	uint64_t captured, durable, removed, restores, lost_ranks, restarts, power_cuts, shared, answers, packed;
};

/* What an operator may have decided: by the seed, so that a run replays. */
static void decide(struct node *node, uint64_t seed)
{
	static const struct {
		const char *text;
		unsigned keep_last;
	} policies[] = {
		{NULL, 0},
		{"[job]\nsave-policy = queue\nsave-queue = 2\n", 0},
		{"[job]\nsave-policy = refuse\npersist-every = 2\n", 0},
		{"[node]\nwrite-bandwidth = 1M\n[job]\npersist-every = 3\nfull-every = 2\n", 0},
		{"[job]\nsave-policy = queue\nwrite-bandwidth = 64K\n", 0},
		{"[job]\nkeep-last = 1\n", 1},
		{"[job]\ncompress = zstd\n", 0},
		{"[node]\nwrite-bandwidth = 1M\n[job]\ncompress = zstd\nfull-every = 4\nkeep-last = 2\n", 2},
		{"[node]\ncollect-after = 0\n[job]\nkeep-last = 2\nverify = no\n", 2},
	};
	size_t i = seed % (sizeof(policies) / sizeof(policies[0]));
	node->policies = policies[i].text;
	node->keep_last = policies[i].keep_last;
}

static bool unsynced; /* a checkpoint was named, and nothing was fsynced since */

static void look(const struct disk *d, const struct disk_op *op)
{
	(void)d;
	if (op->kind == DISK_RENAME && !strncmp(op->name, NAME_WORK_PREFIX, strlen(NAME_WORK_PREFIX)))
		unsynced = true;
	else if (op->kind == DISK_FSYNC)
		unsynced = false;
}

/* A daemon dies when it has named a checkpoint, and told nobody. What the next one tells of it holds, although the power is cut soon. */
static void crash_unsynced(struct node *node)
{
	node_kill_daemon(node);
	node_start(node);
	for (uint64_t n = rng_below(world_rng(), 150); n; n--)
		node_event(node);
	node_power_cut(node);
	node_check_store(node);
	node_start(node);
	node_check_store(node);
}

static void crash(struct node *node, uint64_t seed, uint64_t event)
{
	bool power = rng_chance(world_rng(), 40);
	if (power)
		node_power_cut(node);
	else if (node->up)
		node_kill_daemon(node);
	sim_context(seed, event);
	node_check_store(node);
	node_start(node);
	node_check_store(node);
}

static void run(uint64_t seed, enum disk_lie lie, struct totals *t)
{
	struct node node;
	world_reset(seed);
	disk_sim_lie(lie);
	node_init(&node, 1 + (uint32_t)rng_below(world_rng(), SIM_WORLD_MAX));
	decide(&node, seed);
	node.slots += seed % 3; /* a queue needs four */
	node_start(&node);
	unsynced = false;
	disk_sim_watch(look);
	struct disk_faults faults = {.error = rng_chance(world_rng(), 40) ? 5 : 0,
				     .no_space = rng_chance(world_rng(), 30) ? 20 : 0,
				     .link = seed % 4 ? 0 : 300,
				     .answer = seed % 5 ? 0 : 100,
				     .fsync = rng_chance(world_rng(), 30) ? 20 : 0};
	for (uint64_t i = 0; i < EVENTS; i++) {
		sim_context(seed, i);
		disk_sim_faults(&faults);
		node_event(&node);
		if (rng_below(world_rng(), 500) == 0)
			crash(&node, seed, i);
		if (unsynced && node.up && rng_chance(world_rng(), 50))
			crash_unsynced(&node);
	}
	struct disk_faults none = {0};
	disk_sim_faults(&none);
	node_settle(&node);
	node_check_store(&node);
	node_power_cut(&node);
	node_check_store(&node);
	t->captured += node.captured;
	t->durable += node.durable;
	t->removed += node.removed;
	t->restores += node.restores;
	t->lost_ranks += node.lost_ranks;
	t->restarts += node.restarts;
	t->power_cuts += node.power_cuts;
	t->shared += disk_sim_counts()->shared;
	t->answers += disk_sim_counts()->answers;
	t->packed += node.packed;
	node_end(&node);
	world_end();
}

int main(int argc, char **argv)
{
	const char *nightly = getenv("CKPT_NIGHTLY"), *lie = getenv("CKPT_SIM_LIE");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : nightly && *nightly == '1' ? SEEDS_NIGHTLY : SEEDS;
	enum disk_lie which = !lie ? LIE_NONE : !strcmp(lie, "file") ? LIE_FSYNC_FILE : LIE_FSYNC_DIR;
	struct totals t = {0};
	log_init("sim");
	if (!getenv("CKPT_LOG"))
		log_set_level(LOG_ERROR);
	for (uint64_t seed = first; seed < first + count; seed++)
		run(seed, which, &t);
	printf("%" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " snapshots captured, %" PRIu64 " durable, %" PRIu64
	       " seen removed, %" PRIu64 " restores, %" PRIu64 " ranks lost, %" PRIu64 " daemons killed, %" PRIu64
	       " power cuts, %" PRIu64 " files linked, %" PRIu64 " answers lost, %" PRIu64 " packed files read\n",
	       count, first, t.captured, t.durable, t.removed, t.restores, t.lost_ranks, t.restarts, t.power_cuts,
	       t.shared, t.answers, t.packed);
	/* A schedule in which nothing happens proves nothing. */
	if (count >= 50 && (!t.captured || !t.durable || !t.removed || !t.restores || !t.lost_ranks || !t.restarts ||
			    !t.power_cuts || !t.shared || !t.answers || !t.packed)) {
		printf("some kind of event never happened\n");
		return 1;
	}
	return 0;
}
