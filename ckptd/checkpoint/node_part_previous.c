/* The parent of a commit: its directory is opened once, before the first file, so that it may be renamed and removed meanwhile. When
 * its mark says that it is damaged, or cannot be understood, nothing is linked to it. No failure here is one of the commit. */
#include "checkpoint/node_part_private.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "format/marks.h"

#include <stdlib.h>

/* The chain of operations: directory, mark, its text. Belongs to the commit, which may be freed with it when the daemon ends. */
struct parent_mark {
	struct commit *commit;
	struct disk_op op;
	int file;
	bool usable;
	char text[MARK_BYTES_MAX];
};

static void submit(struct parent_mark *m, struct disk_op op)
{
	m->op = op;
	disk_submit(m->commit->disk, &m->op);
}

static void finish(struct parent_mark *m, bool usable)
{
	struct commit *c = m->commit;
	c->parent_usable = usable;
	c->parent_mark = NULL;
	free(m);
	commit_advance(c, 0);
}

static void mark_closed(struct disk_op *op)
{
	struct parent_mark *m = list_entry(op, struct parent_mark, op);
	finish(m, m->usable);
}

static void mark_read(struct disk_op *op)
{
	struct parent_mark *m = list_entry(op, struct parent_mark, op);
	const struct commit *c = m->commit;
	struct health health;
	struct err err = {0};
	bool understood = op->result >= 0 && !health_decode(m->text, (size_t)op->result, &health, &err);
	m->usable = understood && !health.damaged;
	if (!m->usable) {
		log_info("commit %s/%s: nothing is linked to %s, which is %s", c->job, c->name, c->parent_name,
			 understood ? "marked damaged" : "marked by an unreadable " NAME_HEALTH);
		parent_forget(c->parent);
	}
	submit(m, (struct disk_op){.kind = DISK_CLOSE, .file = m->file, .done = mark_closed});
}

static void mark_opened(struct disk_op *op)
{
	struct parent_mark *m = list_entry(op, struct parent_mark, op);
	if (op->result < 0) {
		finish(m, op->result == -ENOENT);
		return;
	}
	m->file = (int)op->result;
	submit(m,
	       (struct disk_op){
		       .kind = DISK_READ, .file = m->file, .buf = m->text, .len = sizeof(m->text), .done = mark_read});
}

static void directory_opened(struct disk_op *op)
{
	struct parent_mark *m = list_entry(op, struct parent_mark, op);
	if (op->result < 0) {
		finish(m, false);
		return;
	}
	m->commit->parent_dir = (int)op->result;
	submit(m, (struct disk_op){
			  .kind = DISK_OPEN, .dir = m->commit->parent_dir, .name = NAME_HEALTH, .done = mark_opened});
}

void commit_open_parent(struct commit *c)
{
	bool wanted = c->parent && c->parent->valid && c->full_every > 1;
	struct parent_mark *m = wanted ? calloc(1, sizeof(*m)) : NULL;
	if (!m) {
		commit_advance(c, 0);
		return;
	}
	m->commit = c;
	c->parent_mark = m;
	name_dir(c->parent->id, c->parent_name);
	submit(m, (struct disk_op){.kind = DISK_OPEN,
				   .dir = c->job_dir,
				   .name = c->parent_name,
				   .flags = DISK_DIR,
				   .done = directory_opened});
}
