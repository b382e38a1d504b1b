/* Scrub: checkpoints that nobody has read for scrub-interval are read again, since storage forgets in silence. There is
 * one for the daemon, over the whole store. It reads one checkpoint at a time, the one that was read longest ago first.
 * It has a thread of its own, so that read-backs of new checkpoints never wait for it. It reads at the pace of
 * read-bandwidth, and holds still while a commit writes (at most a second before each part: a store that is always
 * written is read, too). What it finds is treated as in checkpoint/readback.h.
 *
 *   IDLE → PLAN (worker: what is due) → READ … → IDLE; every ten minutes
 *
 * What scrub_want() names comes first, on every node, whatever scrub-interval says. */
#ifndef CKPTD_UPKEEP_SCRUB_H
#define CKPTD_UPKEEP_SCRUB_H

#include "base/err.h"

#include "format/tensor/names.h"

#include <stdbool.h>

struct jobs;
struct scrub;

/* The store is open. keeps: of the daemons that share it this one looks for what is due. */
int scrub_new(struct jobs *jobs, bool keeps, struct scrub **out, struct err *err);
/* Ends what is being read; scrub_idle, or the process ends. */
void scrub_free(struct scrub *scrub);
/* All that follows tolerates NULL: no store; so does scrub_want (checkpoint/storage.h). Each tick: begins, holds still, and
 * when the daemon stops gives up what is under way. */
void scrub_tick(struct scrub *scrub);
/* Becomes readable when scrub_poll has something to do. */
int scrub_event_fd(struct scrub *scrub);
void scrub_poll(struct scrub *scrub);
bool scrub_idle(const struct scrub *scrub);

#endif
