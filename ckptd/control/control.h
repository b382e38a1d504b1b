/* Control: what this node knows of coordinators, and those that it has. */
#ifndef CKPTD_CONTROL_CONTROL_H
#define CKPTD_CONTROL_CONTROL_H

#include "base/list.h"
#include "base/repeat.h"

struct election;
struct membership;
struct membership_past;
struct registry;

enum { CONTROL_REFUSALS = 16 };

struct control {
	struct registry *registry; /* NULL: without one, the first node of the roster coordinates */
	struct election *election; /* NULL: as before */
	uint64_t node_record_ns;   /* our record in it is not written again before; UINT64_MAX: it is being written */
	struct list hosts;         /* of the jobs that are coordinated here */
	struct membership *memberships; /* of those among them whose world may change */
	struct membership_past *past_memberships;
	struct repeat refusals[CONTROL_REFUSALS]; /* of nodes whose jobs cannot be coordinated here */
};

#endif
