#include "frame/jobs.h"

#include "frame/output.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *jobs_text(const struct checkpoint_ref *refs, size_t n, char dst[JOBS_TEXT_MAX])
{
	static const char more[] = ", …";
	size_t used = 0;
	dst[0] = 0;
	for (size_t i = 0; i < n; i++) {
		if (i && !strcmp(refs[i].job, refs[i - 1].job))
			continue;
		size_t len = strlen(refs[i].job) + (used ? 2 : 0);
		if (used + len + sizeof(more) > JOBS_TEXT_MAX) {
			memcpy(dst + used, more, sizeof(more));
			break;
		}
		snprintf(dst + used, JOBS_TEXT_MAX - used, "%s%s", used ? ", " : "", refs[i].job);
		used += len;
	}
	return dst;
}

bool jobs_has(struct repo *repo, const char *job)
{
	int dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	if (dir >= 0)
		disk_close_file(repo->disk, dir);
	return dir != -ENOENT; /* what else is wrong with it a scan says */
}

int jobs_check(const struct cli *cli, struct repo *repo, const char *job)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	char names[JOBS_TEXT_MAX];
	struct err err = {0};
	size_t n;
	if (!job || jobs_has(repo, job))
		return EXIT_OK;
	int rc = repo_scan(repo, NULL, &refs, &n, &err);
	if (rc)
		return cli_fail(cli, EXIT_FAILED, "there is no job %s in %s; its jobs are not known: %s", job,
				repo->path, err.text);
	if (!n)
		return EXIT_OK;
	return cli_fail(cli, EXIT_FAILED, "there is no job %s in %s; there are: %s", job, repo->path,
			jobs_text(refs, n, names));
}
