/* Room clients: connections at the control socket, and what operators ask.
 * May know: runtime, faults, cluster, checkpoint, replication, participant, save, job, control, observe.
 * Invariants: nothing is read before the handshake; a client that is slow, silent or wrong costs only itself. */
#ifndef CKPTD_CLIENTS_ROOM_H
#define CKPTD_CLIENTS_ROOM_H

#include "clients/connection.h"
#include "clients/operator.h"
#include "clients/operator_forward.h"
#include "clients/operator_wait.h"
#include "clients/operators.h"

#endif
