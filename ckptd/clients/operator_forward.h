/* Forwarded requests: what an operator asks of this daemon, and only the daemon that coordinates the job can answer
 * (clients/operator.h), or the registry. A request is sent there, and the operator is answered when that daemon has
 * answered. Each has a deadline, and there are at most FORWARDS_MAX. */
#ifndef CKPTD_CLIENTS_OPERATOR_FORWARD_H
#define CKPTD_CLIENTS_OPERATOR_FORWARD_H

#include "base/err.h"
#include "format/message/peer_coord.h"

struct client;
struct operators;

/* The answer comes later, to this request of the client's; the job is named. Where it says nothing else it is the text.
 * -ENOTCONN: the coordinator cannot be reached. */
int forward_to_coordinator(struct operators *operators, struct client *client, uint32_t seq,
			   const struct wire_command *command, const char *text, struct err *err);
/* The same where it is coordinated here: the answer is given by that token. -EBUSY. */
int forward_here(struct operators *operators, struct client *client, uint32_t seq, const char *text, uint64_t *token,
		 struct err *err);
/* A node is to be taken out of the cluster, or its failures are to be forgotten: the answer comes when that is on record. */
int forward_to_record(struct operators *operators, struct client *client, uint32_t seq,
		      const struct wire_command *command, struct err *err);
/* From the coordinator. */
void forward_answered(struct operators *operators, const struct peer_order *order);
/* That node cannot be reached any more. */
void forward_down(struct operators *operators, uint32_t node);
/* The client has gone; with the last of them all is forgotten. */
void forward_forget(struct operators *operators, const struct client *client);
/* Every tick. */
void forward_tick(struct operators *operators);

#endif
