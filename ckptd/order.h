/* Order: what an operator asks of a job through the command line (ckpt flush, ckpt halt). */
#ifndef CKPTD_ORDER_H
#define CKPTD_ORDER_H

#include "base/err.h"
#include "format/wire.h"

struct daemon;
struct job;

/* Carries it out, on all nodes of the job, or sees to it that it will be. -ENOENT: no such job, or nothing to write; -EINVAL: several jobs and none named, or
 * what it asks is impossible; the sentence names the jobs there are. */
int order_take(struct daemon *daemon, const struct wire_command *command, struct wire_answer *answer, struct err *err);
/* The same was asked of another node of the job: FLUSH to GO_ON. */
void order_obey(struct job *job, const struct wire_command *command);

#endif
