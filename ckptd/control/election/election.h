/* Election: who coordinates each job that is spread over nodes.
 *
 * Without a registry: the first node of the roster coordinates all of them, for ever (term 0).
 *
 * With one: the node whose daemon holds the record jobs/JOB/coordinator, under the lease of that daemon. Any node that
 * has part in a job for which no such record stands tries to create it; one of them does. The revision in which it was
 * created is the term. The term stands in every message between a node and the coordinator. Every record that a
 * coordinator writes is bound to it. A message of another term changes nothing.
 *
 *   FOLLOWS ── the record is gone ──► VACANT ── created ──► the mirror tells of it ──► COORDINATES
 *                                                                                          │ the lease may end, or the record is another's
 *   ◄──────────────────── another's record stands ─────────────────────────────────────────┘ deposed: orders nothing any more
 *
 * A daemon coordinates only what the mirror has shown to be its own, so that it has seen every record of earlier terms.
 * It stops before its lease can have ended by its own clock (registry/registry.h). */
#ifndef CKPTD_CONTROL_ELECTION_H
#define CKPTD_CONTROL_ELECTION_H

#include "participant/room.h"

#include <stddef.h>

enum { ELECTION_PREFIX_MAX = 136 };

struct begun;
struct control;
struct dispatch;
struct election;

struct election_events {
	/* Somebody else coordinates the job from now on, or nobody does. */
	void (*moved)(struct dispatch *dispatch, const char *job);
};

/* Under which prefix of the registry the nodes of the cluster elect; "": without one. -EINVAL with a sentence. */
int election_prefix(const struct control *control, char out[ELECTION_PREFIX_MAX], struct err *err);
/* Opens the registry that the configuration names. Without one nothing is opened. -errno with a sentence. */
int election_open(struct control *control, const struct election_events *events, struct err *err);
void election_close(struct control *control);
/* Readable when there is something to do; -1 without a registry. */
int election_event_fd(const struct control *control);
void election_poll(struct control *control);
/* Tries to be elected where nobody is; stops in time; lets go of jobs that nobody has any more. */
void election_tick(struct control *control);

/* The message of a node that takes itself for the coordinator of the job, in that term: it is, as far as is known here. */
bool election_believes(const struct control *control, const char *job, uint32_t node, uint64_t term);

/* The same, of a node that this one may not have heard of because the registry is away here. Terms only grow, and an
 * elected daemon stops before its lease can have ended. So the highest term that a node hears of is as good as the
 * registry's word, until the registry is there again. True: it is believed from now on. */
bool election_hears(struct control *control, const char *job, uint32_t node, uint64_t term);

/* Its coordinator has said so: nobody coordinates it any more. */
void election_resigned(struct control *control, const char *job);

/* The job that this node coordinates is handed over to another node (control/election/hand_over.h). From now on it is not
 * coordinated here, and the nodes that see this give that node the time to be elected. may: else it stays here. */
bool election_may_hand_over(const struct control *control, const char *job);
void election_hand_over(struct control *control, const char *job, uint32_t node);

/* Epochs of a job (control/record/epoch_record.h). The last that is recorded; epoch 0: none, or there is no registry. To be
 * freed. -EBADMSG, -EPROTONOSUPPORT, with a sentence. */
int election_last_begun(const struct control *control, const char *job, struct begun *begun, struct err *err);
/* Records it, bound to our term and to what stands there as far as we know. done: rc 0: it stands. -ESTALE: we do not
 * coordinate the job any more, or an earlier request of ours was applied late, which the mirror will show. Else nobody
 * knows. -ENOSYS: there is no registry. */
int election_record_epoch(struct control *control, const char *job, const void *text, size_t len,
			  void (*done)(void *arg, int rc, const char *why), void *arg);

struct election_view {
	bool synced;                    /* the registry is followed */
	const char *away;               /* why it is not */
	uint64_t lease_left_ns;         /* 0: none */
	unsigned coordinates;           /* jobs that are coordinated here */
	uint64_t transactions, outages; /* so far */
	uint64_t hand_overs;            /* jobs that this node has handed over */
};
/* False: without a registry. */
bool election_look(const struct control *control, struct election_view *view);

#endif
