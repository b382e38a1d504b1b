/* Room cluster: which nodes there are, messages between their daemons, and one-sided copies between their
 * memories.
 * May know: runtime.
 * Invariants: a message arrives once, whole and in order within its session, or the session ends; no bytes of an
 * unproven peer get further. */
#ifndef CKPTD_CLUSTER_ROOM_H
#define CKPTD_CLUSTER_ROOM_H

#include "cluster/member.h"
#include "cluster/net.h"
#include "cluster/net_body.h"
#include "cluster/roster.h"

#endif
