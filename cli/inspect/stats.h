/* Numbers about checkpoints.
 *
 * stats.c       the command, and its form for a whole job
 * stats_one.c   its form for one checkpoint */
#ifndef CKPT_CLI_STATS_H
#define CKPT_CLI_STATS_H

#include "frame/output.h"
#include "frame/target.h"

#include "store/manage/usage.h"

/* An exit code; all messages are printed. */
int stats_one(struct cli *cli);

/* Opens the directory of a checkpoint (or another one of the job), counts its files and closes it. */
int stats_count(struct repo *repo, const char *job, const char *name, struct usage_seen *seen, struct usage *u,
		struct err *err);
json_t *stats_usage_json(const struct usage *u);
/* "4 files, 1.0 GiB; 512.0 MiB on storage, 2 of them shared with other checkpoints" */
char *stats_usage_text(const struct usage *u, char *dst, size_t size);

#endif
