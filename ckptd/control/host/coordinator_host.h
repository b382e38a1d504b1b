/* Coordinator host: a job's coordinator in the daemon that has it, and how reports and orders come and go. A job whose
 * ranks are all on one node has its host there. That of a job which is spread over nodes stands where control/election/election.h
 * says, whether or not that node has ranks of it.
 *
 * What is for ourselves is a call (host_report, orders_obey), what is for others a message (format/message/peer_coord.h)
 * of the same content. A message that the net does not take ends the session: after that both sides say again what holds.
 *
 * The epoch of a job that is spread, its plan, which nodes are drained, and its end, are recorded
 * (control/record/epoch_record.h) before any node is told of them. A host that begins, also after a restart of its daemon,
 * begins with an epoch that was never given out. So all nodes have to join again. */
#ifndef CKPTD_CONTROL_COORDINATOR_HOST_H
#define CKPTD_CONTROL_COORDINATOR_HOST_H

#include "participant/room.h"

struct coordinator_host;
struct control;
struct peer_order;

/* An order for a node, by call or message; its job is set. */
/* The lease of this node may have ended: nodes that have joined are told that nobody coordinates the job here any more.
 * That orders nothing. */
void host_resign(struct control *control, const char *job);
void host_order(struct control *control, bool spread, uint32_t node, const struct peer_order *order);
/* For another world, in an epoch that was never given out; nobody joins yet. -EAGAIN: host_busy. */
int host_remake(struct control *control, const char *job, uint32_t world, bool spread, struct err *err);
/* A node joins, and no host can be made for it, or no plan for what it offers: it tries again. */
void host_refuse(struct control *control, uint32_t node, const char *job, int rc, const char *why);
/* There is a new plan, or something was asked: it is recorded, and then membership_recorded() or
 * membership_asked_recorded() is called. */
void host_record(struct control *control, const char *job);
/* coord_moves: who takes no part any more is told to end what it has under way for the plan before this one. */
void host_moves(struct control *control, const char *job, uint32_t node, uint32_t plan);
/* From now on a node can only join by the plan that holds. */
void host_invalidate_plan(struct control *control, const char *job, uint32_t plan);
/* coord_hold and coord_release. */
void host_hold(struct control *control, const char *job, const char *why);
void host_release(struct control *control, const char *job);
/* coord_spill_begin, or coord_spill_give_up. */
void host_spill(struct control *control, const char *job, bool give_up);
void host_preface(struct control *control, const char *job, const char *text);
/* Nobody is left who could go on with the job, or too few are: it is over. */
void host_abandon(struct control *control, const char *job);
/* All nodes of a job were lost, its plan is on record, and there is no place for another job. */
bool host_may_go(const struct control *control, const char *job);
/* Then: as if this daemon had just been started. */
void host_let_go(struct control *control, const char *job);
/* So many nodes the coordinators here have room for. */
unsigned hosts_room(const struct control *control);
/* A node is there: it may be cut off from the registry, and not know who coordinates. */
void hosts_node_up(struct control *control, uint32_t node);
/* A node of the roster is lost: for all jobs. rc: as in net_events.down. */
void hosts_node_down(struct control *control, uint32_t node, int rc, const char *why);
/* Another node coordinates the job, or may: nothing is ordered any more, and what is on storage stays as it is. */
void host_depose(struct control *control, const char *job);
/* Records that could not be written are tried again. */
void hosts_tick(struct control *control, uint64_t now);
/* A worker reads for one of them, which must stay until the worker has ended. Or the end of its job is about to be on
 * record, and nobody else knows of it. */
bool hosts_at_work(const struct control *control);
/* Of jobs on several nodes: their directories are left as they are, since the daemon ends and what they wait for does not
 * come. */
void hosts_abandon(struct control *control);
/* The same of one job, wherever its ranks are. */
void host_leave_directories(struct control *control, const char *job);
void hosts_free(struct control *control);

/* This daemon has that directory of the job made, and has not given it up: `name` as name_work() writes it. */
bool host_writes(const struct control *control, const char *job, const char *name);

/* The job is coordinated here. */
bool host_has(const struct control *control, const char *job);
/* epoch 0: there is none. */
struct coord_view host_view(const struct control *control, const char *job);

#endif
