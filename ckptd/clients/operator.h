/* Operator: what an operator asks of a job through the command line (ckpt flush, ckpt halt, ckpt drain). */
#ifndef CKPTD_CLIENTS_OPERATOR_H
#define CKPTD_CLIENTS_OPERATOR_H

#include "base/err.h"
#include "format/message/wire.h"

struct client;
struct operators;
struct job;
struct peer_report;

enum { OPERATOR_LATER = 1 }; /* the client is answered when the coordinator has (clients/operator_forward.h) */

/* Carries it out, on all nodes of the job, or sees to it that it will be. seq: of the client's request. -ENOENT: no such job, or nothing to
 * write; -EINVAL: several jobs and none named, or what it asks is impossible; the sentence names the jobs there are. */
int operator_take(struct operators *operators, struct client *client, uint32_t seq, const struct wire_command *command,
		  struct wire_answer *answer, struct err *err);
/* The same was asked of another node of the job: FLUSH, DRAIN, UNDRAIN. */
void operator_obey(struct job *job, const struct wire_command *command);

#endif
