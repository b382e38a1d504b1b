/* Spill: this node's part in bringing to storage what is only in memory, before the world changes. It brings the newest
 * snapshot of the ranks of one node, which may be lost. It takes that out of the slots of this node's own ranks, or out
 * of the copies that it holds. The coordinator says which, and under which name it is written (coordinator/restore/spill.c).
 *
 *   (GATHER) GATHERING ── every part stands here; what is lacking is fetched ──► CHECKING (worker: the digests) ──► GATHERED, said
 *                    ◄── a part is damaged: once, other holders are asked for it ──
 *   (WRITE)  ──► WRITING, an ordinary commit (checkpoint/node_part.h) ── PREPARED, said
 *   (STORED, KEEP) ──► ends; (CLEAR) ──► what was written is deleted, said
 *
 * The slots stay as they are as long as it lasts. It needs no ranks of the job here: who holds copies may have none. It
 * lasts no longer than the session with the coordinator; what was written then stays in a directory that is no
 * checkpoint. */
#ifndef CKPTD_JOB_SPILL_H
#define CKPTD_JOB_SPILL_H

#include "format/message/peer_coord.h"

struct jobs;

/* From the coordinator. */
void spill_order(struct jobs *jobs, const char *job, const struct peer_spill *order);
/* The coordinator is not there any more, or this daemon ends: nobody says what is to become of them. */
void spills_abandon(struct jobs *jobs, const char *job);
/* Those whose coordinator cannot be reached. */
void spills_abandon_lost(struct jobs *jobs);
/* Storage that makes no progress; every tick. */
void spills_tick(struct jobs *jobs);
/* A worker or the disk uses something of one. */
bool spills_at_work(const struct jobs *jobs);
/* Nothing of them runs any more. */
void spills_free(struct jobs *jobs);

#endif
