/* Participation: how a job joins its coordinator, with all that this node has of it, joins anew, and leaves. Its single reports are in
 * participant/participant.h. */
#ifndef CKPTD_JOB_PARTICIPATION_H
#define CKPTD_JOB_PARTICIPATION_H

#include "base/err.h"
#include "coordinator/room.h"
#include "format/message/peer_coord.h"

struct job;

/* Joins: on 0 the epoch is known if the job is on this node alone; else it comes with the coordinator's answer. plan:
 * that the launcher follows; 0: none. */
int participation_take(struct job *job, uint32_t plan, struct err *err);
/* Joins again, when nobody has answered so far. */
void participation_join(const struct job *job);
/* The same, some time after the coordinator has refused this node for what may be over by now. */
void participation_tick(struct job *job);
/* The ranks of the job that are here go. comes_again: others come in their place, as soon as the launcher has said by which plan. */
void participation_leave(struct job *job, bool comes_again);

void participation_knows(struct job *job, enum coord_witness witness, uint32_t epoch);
/* With the blobs of the job that the ranks have; the rest is the caller's. */
void participation_joining(const struct job *job, const struct peer_node_ready *joining);
/* As soon as all arenas are there. */
void participation_shares(const struct job *job);
/* And of these, as bits, which registered pieces they are. */
void participation_list(const struct job *job, uint32_t shares);
/* The coordinator compares how ranks know their tensors. */
void participation_tensors(const struct job *job, const struct peer_tensors_ask *ask);

#endif
