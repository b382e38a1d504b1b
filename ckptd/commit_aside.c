/* What failed is renamed out of the way, then deleted name by name. */
#include "commit_private.h"

#include "base/clock.h"
#include "store/repo.h"

#include <stdio.h>

void commit_move_aside(struct commit *c)
{
	snprintf(c->aside, sizeof(c->aside), "%s%s.%lx", REPO_ABANDONED, c->name, (unsigned long)clock_wall());
	commit_submit(c, (struct disk_op){.kind = DISK_RENAME,
					  .dir = c->job_dir,
					  .name = c->name,
					  .dir2 = c->job_dir,
					  .name2 = c->aside});
}

/* A directory that could not be opened has nothing in it. */
static const char *next_made(struct commit *c)
{
	return c->dir < 0 ? NULL : commit_made_name(c, c->remove_at, c->writer.name);
}

void commit_remove_next(struct commit *c)
{
	const char *name = next_made(c);
	if (name)
		commit_unlink(c, name);
	else
		commit_submit(c, (struct disk_op){.kind = DISK_RMDIR, .dir = c->job_dir, .name = c->aside});
}

void commit_removed_one(struct commit *c)
{
	if (!next_made(c)) {
		commit_set_state(c, COMMIT_CLOSE_DIR);
		return;
	}
	c->remove_at++;
	commit_remove_next(c);
}
