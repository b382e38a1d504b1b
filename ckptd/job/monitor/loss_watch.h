/* Loss watch: how the loss of a job goes (job/monitor/loss.h), by what its ranks on this node hand over, and when it went
 * wrong. It tells log and catalog; what is done about it stands in job/monitor/loss_policy.h. Belongs to the loop's
 * thread. */
#ifndef CKPTD_JOB_LOSS_WATCH_H
#define CKPTD_JOB_LOSS_WATCH_H

#include "job/monitor/loss.h"
#include "job/monitor/loss_merge.h"

struct job;

enum { LOSS_EPISODES = 16, LOSS_TEXT_MAX = 200 };

/* That it went wrong. */
struct loss_episode {
	struct loss_found found;
	bool by_rank; /* `rank` said so; else it is of all together */
	uint32_t rank;
	uint64_t since_wall_ns, until_wall_ns; /* until: 0: it is */
};

struct loss_watch {
	struct loss now;
	struct loss_merge ranks;
	struct loss_episode episodes[LOSS_EPISODES]; /* the newest, oldest first */
	uint32_t nepisodes;
	uint64_t counts[LOSS_TROUBLE_END]; /* of them, ever, by kind */
	/* private */
	uint32_t epoch; /* of the last step */
};

/* Looks at what was handed over; every tick. */
void loss_watch_tick(struct job *job);
/* The episode that lasts; NULL: there is none. */
const struct loss_episode *loss_watch_open(const struct loss_watch *w);
/* What it is, as a sentence. Returns dst. */
const char *loss_episode_text(const struct loss_episode *e, char *dst, size_t size);

#endif
