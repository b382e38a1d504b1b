/* What failed is renamed out of the way; then it loses the manifest that it may have. */
#include "checkpoint/directory_private.h"

#include "base/clock.h"
#include "store/read/repo.h"

#include <stdio.h>

void directory_move_aside(struct directory *s)
{
	snprintf(s->aside, sizeof(s->aside), "%s%s.%lx", REPO_ABANDONED, s->name, (unsigned long)clock_wall());
	directory_submit(s, (struct disk_op){.kind = DISK_RENAME,
					     .dir = s->job_dir,
					     .name = s->name,
					     .dir2 = s->job_dir,
					     .name2 = s->aside});
}

/* A directory that could not be opened has nothing in it. What is left is no checkpoint: its name says so. */
void directory_disarm(struct directory *s)
{
	static const char *const names[] = {MANIFEST_TMP, NAME_MANIFEST};
	if (s->dir < 0 || s->disarmed == sizeof(names) / sizeof(names[0])) {
		directory_set_state(s, DIRECTORY_LEFT);
		return;
	}
	directory_submit(s, (struct disk_op){.kind = DISK_UNLINK, .dir = s->dir, .name = names[s->disarmed++]});
}
