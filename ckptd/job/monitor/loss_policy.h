/* Loss policy: what is done when the loss of a job is no number, or diverges (the setting loss-policy).
 *
 * With `rollback` the job goes back to the newest checkpoint that training has marked healthy; where nobody marks, to one
 * that is older than the trouble. What is found again at about the same step leads further back, and the third time it
 * ends the job: going back does not help then. The coordinator is asked until another epoch begins. Belongs to the loop's
 * thread. */
#ifndef CKPTD_JOB_LOSS_POLICY_H
#define CKPTD_JOB_LOSS_POLICY_H

#include "format/message/wire.h"
#include "job/monitor/loss.h"

struct job;

enum { LOSS_ROLLBACKS = 2 /* for the same trouble */ };

struct loss_policy_state {
	struct wire_rollback to;
	uint32_t epoch;     /* in which it is asked for; 0: it is not */
	uint64_t again_ns;  /* when to ask again */
	uint64_t last_step; /* at which there was trouble that the job went back for */
	uint32_t times;     /* that it went back for trouble at about that step */
};

/* It went wrong: text says how. */
void loss_policy_act(struct job *job, const struct loss_found *found, const char *text);
/* Every tick. */
void loss_policy_tick(struct job *job);

#endif
