/* The record of this node in the registry: nodes/NAME, under the daemon's lease, with the address at which its daemon
 * listens. While it stands the daemon is there, as far as the registry knows. Of an open roster it is written by who
 * joins (control/election/members.h). */
#ifndef CKPTD_CONTROL_NODE_RECORD_H
#define CKPTD_CONTROL_NODE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct control;
struct roster_node;

#define NODE_RECORDS "nodes/"

/* What stands in it: HOST:PORT. Returns dst. */
char *node_record_text(const struct roster_node *node, char *dst, size_t size);
/* Writes it where it does not stand; at each tick. */
void node_record_tick(struct control *control);
/* The registry says that the daemon of the node is not there, and no session says otherwise. False without a registry. */
bool node_record_is_gone(const struct control *control, uint32_t node);
/* Nobody is on the way: each node has a session with this one, or the registry says that its daemon is not there. False
 * without a registry. */
bool node_records_settled(const struct control *control);

#endif
