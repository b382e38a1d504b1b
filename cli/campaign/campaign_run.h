/* One campaign at work: a job under `ckpt run`, which has a daemon of its own that allows faults; the faults, one after the other; the end of
 * the job; and the same steps undisturbed. All that it makes is in one folder:
 *
 *	store/  journal  spans  run.log  train.jsonl  s (socket)       the disturbed run; the trainer's --report is train.jsonl
 *	calm/   calm.log  calm.jsonl  calm.s                           the undisturbed one */
#ifndef CKPT_CLI_CAMPAIGN_RUN_H
#define CKPT_CLI_CAMPAIGN_RUN_H

#include "campaign/campaign_journal.h"
#include "process/launch_proc.h"

#include <limits.h>

struct campaign {
	const struct cli *cli;
	struct campaign_file file;
	const char *folder;
	char *const *command; /* of a rank; NULL: ckpt-train */
	struct campaign_journal journal;
	struct proc run;
	bool *ended; /* by fault: in the journal */
	size_t fired, not_fired;
	bool answers;           /* the daemon, when it was asked last */
	struct step_id durable; /* the newest that the journal has */
	uint64_t final_step;
	char params[32], calm_params[32]; /* of the disturbed and of the undisturbed run */
};

char *campaign_path(const struct campaign *c, const char *name, char dst[PATH_MAX]);
/* The faults that the journal has not, then the end of the job. An exit code with the message printed; EXIT_CANCELLED: it was interrupted, and
 * all that it had started has ended. */
int campaign_disturb(struct campaign *c);
/* The same steps without faults. */
int campaign_calm(struct campaign *c);
/* "final step=… params=…" of a trainer's log. False: it does not stand there. */
bool campaign_final(const char *path, uint64_t *step, char params[32]);

/* campaign_ranks.c: the processes */
int campaign_start(struct campaign *c, bool disturbed, uint64_t steps, struct err *err);
/* -ECANCELED: it was interrupted; -ETIMEDOUT. The wait status. */
int campaign_await(struct campaign *c, uint64_t deadline, int *status);
/* Whatever is left of it. */
void campaign_stop(struct campaign *c);

#endif
