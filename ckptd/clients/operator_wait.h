/* Waits: what operators have asked of jobs that are coordinated here, and that is to be on record before they are
 * answered. It is done also when nobody waits any more: an answer that has become late says so. At most WAITS_MAX. */
#ifndef CKPTD_CLIENTS_OPERATOR_WAIT_H
#define CKPTD_CLIENTS_OPERATOR_WAIT_H

#include "base/err.h"
#include "format/message/wire.h"

struct client;
struct operators;

/* Asked by that request of a client here, whose answer is the text, where the outcome has none; by a node, with its token. -EBUSY. */
int wait_here(struct operators *operators, struct client *client, uint32_t seq, const struct wire_command *command,
	      const char *text, struct err *err);
int wait_elsewhere(struct operators *operators, uint32_t node, uint64_t token, const struct wire_command *command,
		   struct err *err);
/* Every tick. */
void waits_tick(struct operators *operators);
void waits_free(struct operators *operators);

/* clients/operator.c: what is to be said of it. -EINPROGRESS: it is not on record yet. */
int operator_outcome(struct operators *operators, const struct wire_command *command, struct wire_answer *answer,
		     struct err *err);

#endif
