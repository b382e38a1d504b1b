/* Control: what this node knows of coordinators, and those that it has. */
#ifndef CKPTD_CONTROL_CONTROL_H
#define CKPTD_CONTROL_CONTROL_H

#include "base/list.h"
#include "base/repeat.h"
#include "control/host/outbox.h"

struct dispatch;
struct election;
struct epochs_record;
struct jobs;
struct members;
struct membership;
struct membership_past;
struct operators;
struct peers;
struct reach_question;
struct registry;
struct runtime;
struct set_aside;
struct set_aside_file;
struct storage;

enum { CONTROL_REFUSALS = 16 };

struct control {
	struct runtime *runtime;
	struct storage *storage;
	struct peers *peers;
	struct jobs *jobs;
	struct dispatch *dispatch;   /* carries out what is ordered of this node (participant/orders.h) */
	struct operators *operators; /* of other nodes, who wait for an answer */
	struct registry *registry;   /* NULL: without one, the first node of the roster coordinates */
	struct election *election;   /* NULL: as before */
	struct members *members;     /* NULL: the roster is a file, or there is none */
	uint64_t node_record_ns;     /* our record in it is not written again before; UINT64_MAX: it is being written */
	struct set_aside_file *set_aside_file; /* NULL: their failures are in the registry, or are not kept */
	struct set_aside *set_aside;           /* nodes to which others are preferred (control/lemon/set_aside.h) */
	struct list hosts;                     /* of the jobs that are coordinated here */
	struct membership *memberships;        /* of those among them whose world may change */
	struct membership_past *past_memberships;
	struct epochs_record *records;            /* on their way, the oldest first */
	struct repeat refusals[CONTROL_REFUSALS]; /* of nodes whose jobs cannot be coordinated here */
	struct reach_question *questions; /* of other nodes: whom does this one reach (control/election/reach.h) */
	uint64_t reach_numbers;           /* of such questions, so far */
	struct outbox outbox;             /* what this node was told by its own coordinators */
	uint64_t hand_overs;              /* by this node, so far (control/election/hand_over.h) */
};

#endif
