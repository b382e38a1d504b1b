/* Straggler watch: the stragglers (job/straggler.h) among a job's ranks on this node, and when there were some. It tells log and catalog, and
 * decides nothing. Belongs to the loop's thread. */
#ifndef CKPTD_JOB_STRAGGLER_WATCH_H
#define CKPTD_JOB_STRAGGLER_WATCH_H

#include "job/straggler.h"

#include <stddef.h>

struct job;

enum { STRAGGLER_EPISODES = 16 };

/* That a rank was late. */
struct straggler_episode {
	uint32_t rank;
	uint64_t since_wall_ns, until_wall_ns; /* until: 0: it is */
	uint64_t since_ns, lasted_ns;
	double ratio;   /* at last */
	double lost_ns; /* at most */
};

struct straggler_watch {
	struct stragglers now;
	struct straggler_episode episodes[STRAGGLER_EPISODES]; /* the newest, oldest first */
	uint32_t nepisodes;
	/* private */
	uint64_t look_ns; /* when it is looked again */
};

/* Looks at the flight records; every tick. */
void straggler_watch_tick(struct job *job, uint64_t now);
/* Share of the time that it has cost, at most. */
double straggler_cost(const struct straggler_episode *e);
/* What it is, as a sentence. Returns dst. */
const char *straggler_text(const struct straggler_episode *e, char *dst, size_t size);

#endif
