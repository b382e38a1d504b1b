/* Whether what was promised has held, judged from the store, the trainer's log, the span log and the journal alone.
 * Nothing here asks a daemon, or uses what the campaign remembers.
 *
 *	durable     what was said to be on storage is there, committed
 *	intact      what is there reads back as it was written, but for what was damaged on purpose; and that is found
 *	restored    nothing older than the newest durable checkpoint was restored without a stated reason, nor older than
 *	            the newest that was replicated when a node was killed
 *	parameters  the job ended with the parameters of a run without faults
 *	hangs       each rank that was made to hang, or to enter another collective, was named in time, and none to which
 *	            nothing of the kind was done
 *	left        no process, network or shared memory is left behind
 *	losses      each spike of the loss that was made was named */
#ifndef CKPT_CLI_JUDGE_JUDGE_H
#define CKPT_CLI_JUDGE_JUDGE_H

#include "base/err.h"
#include "judge/invariant.h"

enum { JUDGE_INVARIANTS = 7 };

/* The folder of a campaign that has ended. An error: it cannot be judged. */
int campaign_judge(const char *folder, struct invariant out[JUDGE_INVARIANTS], struct err *err);

#endif
