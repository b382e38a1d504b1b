/* Ranks view: what ckpt ranks says of the ranks of a job, out of the daemon's document. */
#ifndef CKPT_CLI_RANKS_VIEW_H
#define CKPT_CLI_RANKS_VIEW_H

#include "frame/output.h"

/* In one word what a rank does: a rank of `jobs` of ckpt status. */
const char *ranks_doing(const json_t *rank);
/* A job of that document as ckpt ranks --json has it; the caller's. */
json_t *ranks_job(const json_t *job);

#endif
