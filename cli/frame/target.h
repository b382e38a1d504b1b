/* Which repository, job and checkpoint an invocation means. */
#ifndef CKPT_CLI_TARGET_H
#define CKPT_CLI_TARGET_H

#include "frame/command.h"
#include "frame/output.h"
#include "store/read/repo.h"

/* Opens the repository of --repo, else CKPT_REPO, once; main closes it. EXIT_OK, or a code with the message printed. */
int cli_repo(struct cli *cli);
void cli_repo_close(struct cli *cli);
/* --job, else CKPT_JOB, else NULL in *job. EXIT_USAGE for what is not a job's name. */
int cli_job(const struct cli *cli, const char **job);

/* Opens the repository; *job: that is meant, and is in it. NULL: all of them. */
int cli_repo_job(struct cli *cli, const char **job);
/* Scans the job that is asked for, or all jobs. Ordered as repo_scan; *refs malloc'ed. EXIT_FAILED: that job is not among those of the
 * repository. */
int cli_scan(struct cli *cli, struct checkpoint_ref **refs, size_t *n);
/* Scans the job that is meant: when neither --job nor CKPT_JOB says, the only one in the repository (several: EXIT_USAGE, all
 * named). */
int cli_scan_job(struct cli *cli, struct checkpoint_ref **refs, size_t *n);

/* The checkpoint that `text` means: NULL or "latest", "healthy" (the newest intact one that the training called so),
 * "1000" (the newest epoch of that step), "1000.e0003", the name of the directory, or a tag. EXIT_NONE_RESTORABLE: latest
 * of none; EXIT_FAILED: no such step (the nearest are named); EXIT_USAGE. */
int cli_pick(struct cli *cli, const char *text, struct checkpoint_ref *ref);

/* EXIT_NONE_RESTORABLE, with the sentence that nothing was committed. */
int cli_say_none(const struct cli *cli);

/* Picks and opens it: EXIT_OK and *ck is the caller's, or a code with the message printed. */
int cli_open_named(struct cli *cli, const char *text, struct checkpoint *ck);
/* The same by the first argument. */
int cli_open(struct cli *cli, struct checkpoint *ck);

/* "main/step-000000001000.e0001". Returns dst. */
char *text_checkpoint(const struct checkpoint_ref *ref, char *dst, size_t size);

/* A new document with "job", "step", "epoch" and "name" of the checkpoint. */
json_t *json_checkpoint(const struct cli *cli, const struct checkpoint_ref *ref);

/* The exit code for a negative result of the store. */
int exit_code_of(int rc);

#endif
