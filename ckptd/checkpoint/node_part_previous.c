/* The previous checkpoint of a node's part: its directory is opened once, before the first file, so that it may be renamed and removed meanwhile. When
 * its mark says that it is damaged, or cannot be understood, nothing is linked to it. No failure here is one of the part. */
#include "checkpoint/node_part_private.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "format/files/marks.h"

#include <stdlib.h>

/* The chain of operations: directory, mark, its text. Belongs to the commit, which may be freed with it when the daemon ends. */
struct previous_mark {
	struct node_part *commit;
	struct disk_op op;
	int file;
	bool usable;
	char text[MARK_BYTES_MAX];
};

static void submit(struct previous_mark *m, struct disk_op op)
{
	m->op = op;
	disk_submit(m->commit->disk, &m->op);
}

static void finish(struct previous_mark *m, bool usable)
{
	struct node_part *c = m->commit;
	c->previous_usable = usable;
	c->previous_mark = NULL;
	free(m);
	node_part_advance(c, 0);
}

static void mark_closed(struct disk_op *op)
{
	struct previous_mark *m = list_entry(op, struct previous_mark, op);
	finish(m, m->usable);
}

static void mark_read(struct disk_op *op)
{
	struct previous_mark *m = list_entry(op, struct previous_mark, op);
	const struct node_part *c = m->commit;
	struct health health;
	struct err err = {0};
	bool understood = op->result >= 0 && !health_decode(m->text, (size_t)op->result, &health, &err);
	m->usable = understood && !health.damaged;
	if (!m->usable) {
		log_info("commit %s/%s: nothing is linked to %s, which is %s", c->job, c->name, c->previous_name,
			 understood ? "marked damaged" : "marked by an unreadable " NAME_HEALTH);
		previous_forget(c->previous);
	}
	submit(m, (struct disk_op){.kind = DISK_CLOSE, .file = m->file, .done = mark_closed});
}

static void mark_opened(struct disk_op *op)
{
	struct previous_mark *m = list_entry(op, struct previous_mark, op);
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
	struct previous_mark *m = list_entry(op, struct previous_mark, op);
	if (op->result < 0) {
		finish(m, false);
		return;
	}
	m->commit->previous_dir = (int)op->result;
	submit(m, (struct disk_op){
			  .kind = DISK_OPEN, .dir = m->commit->previous_dir, .name = NAME_HEALTH, .done = mark_opened});
}

void node_part_open_previous(struct node_part *c)
{
	bool wanted = c->previous && c->previous->valid && c->full_every > 1;
	struct previous_mark *m = wanted ? calloc(1, sizeof(*m)) : NULL;
	if (!m) {
		node_part_advance(c, 0);
		return;
	}
	m->commit = c;
	c->previous_mark = m;
	name_dir(c->previous->id, c->previous_name);
	submit(m, (struct disk_op){.kind = DISK_OPEN,
				   .dir = c->job_dir,
				   .name = c->previous_name,
				   .flags = DISK_DIR,
				   .done = directory_opened});
}
