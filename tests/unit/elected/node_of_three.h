/* Node b of three, a, b and c, with a part in the job gpt of several nodes. Its registry is fake_etcd.h. */
#ifndef CKPT_TESTS_NODE_OF_THREE_H
#define CKPT_TESTS_NODE_OF_THREE_H

#include "control/election/election.h"
#include "daemon.h"
#include "job/job.h"

enum { A, SELF, C, LEASE_MS = 2000 };

/* job: what it is beside its name and that it is spread, stays. */
void node_open(struct daemon *d, struct job *job, void (*moved)(struct dispatch *dispatch, const char *job));
void node_close(struct daemon *d);
/* So much later. */
void node_tick(struct daemon *d, uint64_t ms);

#endif
