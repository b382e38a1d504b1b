/* Straggler watch: a job's ranks and nodes that are late again and again, and when there were some. Each node tells the
 * coordinator how far its ranks have come and how long they have waited, once in a round of steps. When all nodes have
 * had a round, the coordinator says which rank is late (coordinator/watch/straggling.h), and every node hears it. That is told
 * to log and catalog, and decides nothing. Belongs to the loop's thread.
 *
 *   here: at work ── a round of steps is over ──► (PACE)
 *   job:  quiet ── STRAGGLERS, with it ──► late ── STRAGGLERS without it, another epoch, a rank is lost, another coordinator ──► quiet */
#ifndef CKPTD_JOB_STRAGGLER_WATCH_H
#define CKPTD_JOB_STRAGGLER_WATCH_H

#include "format/message/peer_coord.h"

#include <stddef.h>

struct job;

enum { STRAGGLER_EPISODES = PEER_STRAGGLERS_MAX };

/* How a rank here compares with the others of the job. */
struct straggler_rank {
	bool compared; /* in the last round; else what follows is of no use */
	bool late;
	double own;   /* share of the last round in which it was in no collective */
	double ratio; /* of that to the own parts of the others */
	double cost;  /* share of the time for which the others waited for it alone, at most */
};

/* That a rank, or a whole node, was late. */
struct straggler_episode {
	bool whole; /* the node; else the rank */
	uint32_t rank;
	char node[NAME_NODE_MAX];              /* that it is or has it; the roster may change meanwhile */
	bool spread;                           /* the job has other nodes */
	uint64_t since_wall_ns, until_wall_ns; /* until: 0: it is */
	uint64_t lasted_ns;
	double ratio;   /* at last */
	double lost_ns; /* at most */
};

struct straggler_watch {
	struct straggler_rank ranks[WIRE_LOCAL_MAX];           /* by their place in the job */
	struct straggler_episode episodes[STRAGGLER_EPISODES]; /* the newest, oldest first */
	uint32_t nepisodes;
	/* private */
	uint32_t epoch;        /* in which it is told; 0: in none */
	struct peer_pace said; /* to the coordinator, the last */
	uint64_t look_ns;      /* when it is looked again */
};

/* Looks at the flight records; every tick. */
void straggler_watch_tick(struct job *job, uint64_t now);
/* The coordinator has judged. */
void straggler_watch_hear(struct job *job, const struct peer_stragglers *m);
/* The coordinator from now on knows nothing of it. */
void straggler_watch_anew(struct job *job);
/* How many ranks and nodes of the job are late. */
uint32_t straggler_watch_late(const struct straggler_watch *w);
/* That of this node as a whole, if it is late; else NULL. */
const struct straggler_episode *straggler_watch_here(const struct job *job);
/* Share of the time that it has cost, at most. */
double straggler_cost(const struct straggler_episode *e);
/* What it is, as a sentence. Returns dst. */
const char *straggler_text(const struct straggler_episode *e, char *dst, size_t size);

#endif
