/* The record of this node in the registry: nodes/NAME, under the daemon's lease, with the address at which its daemon listens. While it stands the daemon
 * is there, as far as the registry knows. */
#ifndef CKPTD_CONTROL_NODE_RECORD_H
#define CKPTD_CONTROL_NODE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct control;

/* Writes it where it does not stand; at each tick. */
void node_record_tick(struct control *control);
/* Nobody is on the way: each node has a session with this one, or the registry says that its daemon is not there. False without a registry. */
bool node_records_settled(const struct control *control);

#endif
