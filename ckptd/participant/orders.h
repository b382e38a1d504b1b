/* Orders: what the coordinator of a job orders is done on this node. The host of the coordinator, or what hears it from
 * another node, hands them over here; dispatch/orders.c knows the rooms that carry them out. */
#ifndef CKPTD_PARTICIPANT_ORDERS_H
#define CKPTD_PARTICIPANT_ORDERS_H

#include <stdint.h>

struct dispatch;
struct operators;
struct peer_order;
struct peer_report;

void orders_obey(struct dispatch *dispatch, const struct peer_order *order);

/* A REQUEST that another node's operator waits for: here is the coordinator (clients/operator.c). */
void operator_requested(struct operators *operators, uint32_t node, const struct peer_report *request);

#endif
