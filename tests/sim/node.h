/* A node of the simulator: the real state machines of ckptd between a fake disk, clock, pool and clients, and ranks that
 * behave as libckpt and a device would, in any order. */
#ifndef CKPT_SIM_NODE_H
#define CKPT_SIM_NODE_H

#include "daemon.h"
#include "job/job.h"
#include "world.h"

enum { SIM_WORLD_MAX = 4, SIM_ACKS_MAX = 512 };

#define SIM_STORE "/sim/store"
#define SIM_JOB "sim"

struct sim_rank {
	uint32_t id;
	bool alive, joined, restored;
	bool registering, joining, restoring;
	uint32_t seq;
	uint32_t epoch; /* joined */
	struct client *client;
	struct rank *rank;  /* in the daemon; NULL while there is none */
	int fd;             /* its arena, held across the daemon's deaths (as the launcher does) */
	struct memory *mem; /* a reference of the test's own for the geometry; its mapping is its own */
	uint64_t next_step;
	int slot;       /* being captured; -1: none */
	uint32_t piece; /* next piece to copy */
	bool fence_forgotten;
};

struct ack {
	struct step_id id;
	int level;
	unsigned fenced; /* bit per rank: complete and fenced */
};

struct node {
	struct daemon daemon;
	bool up;
	uint32_t world, slots;
	const char *policies; /* a configuration file's text, or NULL */
	unsigned keep_last;   /* what it says; 0: everything stays */
	struct job *job;
	struct sim_rank ranks[SIM_WORLD_MAX];
	struct ack acks[SIM_ACKS_MAX];
	unsigned nacks;
	uint64_t last_step; /* the highest that any rank has begun */
	uint64_t removed;   /* acknowledged as durable, and since then removed by retention */
	uint64_t durable, captured, restores, lost_ranks, restarts, power_cuts;
	uint64_t packed; /* files that were read when the store was checked */
};

void node_init(struct node *node, uint32_t world);
void node_start(struct node *node);
/* The daemon dies (SIGKILL); arenas and ranks stay. */
void node_kill_daemon(struct node *node);
/* Everything dies; of the disk stays what was confirmed, and any part of the rest. */
void node_power_cut(struct node *node);
void node_end(struct node *node);

/* One random event. */
void node_event(struct node *node);
/* Lets everything that is in flight come to its end, without new saves. */
void node_settle(struct node *node);

/* Invariants that can be seen at once: levels rise, nothing unfenced is promoted. */
void node_check_levels(struct node *node);
/* Every committed checkpoint is whole and holds what was saved; everything acknowledged as durable is there, or so many newer ones
 * that retention may have removed it; and in any case the newest one, and the newest acknowledged as verified. */
void node_check_store(struct node *node);

/* Indices of the sharded and the frozen tensor among the registered ones; 0 is the replicated one. */
enum { ENTRY_MOMENTS = 1, ENTRY_FROZEN };
/* What element i of entry e holds at a step: every rank agrees on it. */
uint32_t content(uint32_t entry, uint64_t element, struct step_id id);

/* sim_rank.c */
void rank_connect(struct node *node, struct sim_rank *r);
void rank_step(struct node *node, struct sim_rank *r);
/* Begins its next step, if it has a free slot. */
bool rank_begin(struct node *node, struct sim_rank *r, uint32_t target);
void rank_die(struct node *node, struct sim_rank *r);
/* Takes in what the daemon answered; moves on in register → join → restore. */
void rank_listen(struct node *node, struct sim_rank *r);

struct ack *node_ack(struct node *node, struct step_id id);

#endif
