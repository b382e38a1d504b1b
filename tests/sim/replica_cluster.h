/* Nodes on the simulated net, each with the arena of a rank, a pool, and the copies that it holds: what tests of replica share. */
#ifndef CKPT_SIM_REPLICA_CLUSTER_H
#define CKPT_SIM_REPLICA_CLUSTER_H

#include "cluster/net.h"
#include "cluster/roster.h"
#include "daemon.h"
#include "replication/replication.h"

enum { NODES_MAX = 6, ELEMENTS = 40000 };

#define CLUSTER_JOB "sim"

/* Rank i trains on node i. */
struct node {
	unsigned id;
	struct daemon daemon;
	struct net *net;
	struct replica *replica;
	struct memory *mem;
	unsigned life; /* how often it was started */
	uint32_t epoch;
	bool sending;
	unsigned life_of[NODES_MAX]; /* of the others when it began to send */
	uint64_t next_step;
	struct step_id sent[ARENA_SLOTS_MAX]; /* what the slots hold; epoch 0: nothing */
	int fetching;                         /* fetches that have not ended */
	bool surveying;
	struct step_id survey_of; /* replicated when it asked, by nodes in these lives */
	unsigned survey_life[NODES_MAX];
	bool survey_held[NODES_MAX]; /* by rank */
	/* what each had in a slot of its own arena when it asked, in which life; epoch 0: nothing */
	struct own_step {
		struct step_id id;
		uint32_t slot;
		unsigned life;
	} survey_own[NODES_MAX];
	int claimed;      /* slot that is being filled from elsewhere; -1: none */
	uint64_t arrived; /* leaves that are there */
};

struct cluster {
	struct node nodes[NODES_MAX];
	unsigned n;
	uint64_t rate; /* of what is sent, bytes/s */
	struct roster roster;
	struct roster_node lines[NODES_MAX];
	uint32_t epoch;
};

extern struct cluster cluster;

/* Element i of what the rank captured. */
uint32_t value(uint32_t rank, struct step_id id, uint64_t i);

void cluster_start(struct node *n);
/* Its rank captures the step. The slot, or -errno. */
int cluster_capture(struct node *n, struct step_id id);
/* Everything of it must have come to its end. */
void cluster_stop(struct node *n, bool killed);

/* Every byte of the slot is what was captured. */
void check_bytes(const struct memory *mem, uint32_t slot, uint32_t rank, struct step_id id);
/* Whole copies are closed, and the limit of memory is kept; bytes: and they are what was captured, which takes time. */
void check_node(struct node *n, bool bytes);
/* In which epoch the state of a snapshot began, as its rank says: not all do. */
static inline uint32_t began_of(struct step_id id)
{
	return id.step % 2 ? id.epoch : 0;
}

/* What of it was not restored. */
static inline uint32_t lacks_of(struct step_id id)
{
	return id.step % 3 == 1 ? SLOT_PARTIAL : id.step % 3 == 2 ? SLOT_NO_BLOBS : 0;
}

bool holds(struct node *n, uint32_t rank, struct step_id id);

#endif
