/* Campaign worlds: by how many ranks each step was made that has stood, as rank 0 says in the logs of the nodes. */
#ifndef CKPT_CLI_CAMPAIGN_WORLDS_H
#define CKPT_CLI_CAMPAIGN_WORLDS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* The steps after `from`, until the next one begins or training ends. */
struct campaign_stretch {
	uint64_t from;
	uint32_t epoch, world;
};

struct campaign_stretches {
	struct campaign_stretch *of;
	size_t n, room;
};

/* What the log says is added. 0 or -errno. */
int campaign_worlds_read(const char *path, struct campaign_stretches *all, struct err *err);
/* In order: steps that were made again belong to the epoch that was last, and neighbours differ in their world. */
void campaign_worlds_settle(struct campaign_stretches *all);

#endif
