#include "checkpoint/file/hard_link.h"

#include <errno.h>

static void enter(struct hard_link *l);

/* An error may come after the deed. */
static enum hard_link_state after_link(struct hard_link *l)
{
	if (l->op.result >= 0)
		return HARD_LINK_OPEN;
	l->rc = -ENOLINK;
	return HARD_LINK_UNLINK;
}

static enum hard_link_state after_open(struct hard_link *l)
{
	if (l->op.result < 0) {
		l->rc = -ENOLINK;
		return HARD_LINK_UNLINK;
	}
	l->file = (int)l->op.result;
	return HARD_LINK_CHECK;
}

/* Its last byte is there, and nothing behind it. */
static enum hard_link_state after_check(struct hard_link *l)
{
	if (l->op.result == 1)
		return HARD_LINK_FSYNC;
	l->rc = -ENOLINK;
	return HARD_LINK_CLOSE;
}

static enum hard_link_state next_state(struct hard_link *l)
{
	int failed = l->op.result < 0 ? (int)l->op.result : 0;
	switch (l->state) {
	case HARD_LINK_LINK:
		return after_link(l);
	case HARD_LINK_OPEN:
		return after_open(l);
	case HARD_LINK_CHECK:
		return after_check(l);
	case HARD_LINK_FSYNC:
		l->rc = failed;
		return HARD_LINK_CLOSE;
	case HARD_LINK_CLOSE:
		return l->rc == -ENOLINK ? HARD_LINK_UNLINK : HARD_LINK_DONE;
	default: /* a name that stays would be in the way of the file that is written instead */
		l->rc = failed && failed != -ENOENT ? failed : l->rc;
		return HARD_LINK_DONE;
	}
}

static void op_done(struct disk_op *op)
{
	struct hard_link *l = op->arg;
	l->state = next_state(l);
	enter(l);
}

static void submit(struct hard_link *l, struct disk_op op)
{
	l->op = op;
	l->op.done = op_done;
	l->op.arg = l;
	disk_submit(l->disk, &l->op);
}

static void enter(struct hard_link *l)
{
	switch (l->state) {
	case HARD_LINK_LINK:
		submit(l,
		       (struct disk_op){
			       .kind = DISK_LINK, .dir = l->from, .name = l->name, .dir2 = l->dir, .name2 = l->name});
		return;
	case HARD_LINK_OPEN:
		submit(l, (struct disk_op){.kind = DISK_OPEN, .dir = l->dir, .name = l->name});
		return;
	case HARD_LINK_CHECK:
		submit(l, (struct disk_op){.kind = DISK_READ,
					   .file = l->file,
					   .buf = l->tail,
					   .offset = l->size - 1,
					   .len = sizeof(l->tail)});
		return;
	case HARD_LINK_FSYNC:
		submit(l, (struct disk_op){.kind = DISK_FSYNC, .file = l->file});
		return;
	case HARD_LINK_CLOSE:
		submit(l, (struct disk_op){.kind = DISK_CLOSE, .file = l->file});
		return;
	case HARD_LINK_UNLINK:
		submit(l, (struct disk_op){.kind = DISK_UNLINK, .dir = l->dir, .name = l->name});
		return;
	case HARD_LINK_DONE:
		l->done(l);
		return;
	}
}

void hard_link_start(struct hard_link *l)
{
	l->state = HARD_LINK_LINK;
	l->rc = 0;
	l->file = -1;
	enter(l);
}
