/* Orders: what the coordinator of a job orders is done on this node. Whoever has the coordinator, or hears it from another node, hands them over
 * here; dispatch/orders.c knows the rooms that carry them out. */
#ifndef CKPTD_PARTICIPANT_ORDERS_H
#define CKPTD_PARTICIPANT_ORDERS_H

struct daemon;
struct peer_order;

void orders_obey(struct daemon *daemon, const struct peer_order *order);
/* Goes on with what a message of another node has changed. */
void orders_turn(struct daemon *daemon, const char *job);

#endif
