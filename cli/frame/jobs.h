/* Which jobs a repository has: what a message names when the job that was asked for is not among them. */
#ifndef CKPT_CLI_JOBS_H
#define CKPT_CLI_JOBS_H

#include "frame/command.h"

#include "store/read/repo.h"

#include <stddef.h>

enum { JOBS_TEXT_MAX = 256 };

/* "gpt, llama" of what repo_scan found, each job once, and ", …" where they are too many; "" of nothing. Returns dst. */
char *jobs_text(const struct checkpoint_ref *refs, size_t n, char dst[JOBS_TEXT_MAX]);
/* It has a directory of that job; also when that is not known. */
bool jobs_has(struct repo *repo, const char *job);
/* EXIT_FAILED, with the jobs that there are, when the repository has others and not this one: a name that was mistyped must not
 * look like a job that has saved nothing yet. NULL is every job. */
int jobs_check(const struct cli *cli, struct repo *repo, const char *job);

#endif
