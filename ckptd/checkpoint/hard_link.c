#include "checkpoint/hard_link.h"

#include <errno.h>

static void enter(struct linker *l);

/* An error may come after the deed. */
static enum linker_state after_link(struct linker *l)
{
	if (l->op.result >= 0)
		return LINKER_OPEN;
	l->rc = -ENOLINK;
	return LINKER_UNLINK;
}

static enum linker_state after_open(struct linker *l)
{
	if (l->op.result < 0) {
		l->rc = -ENOLINK;
		return LINKER_UNLINK;
	}
	l->file = (int)l->op.result;
	return LINKER_CHECK;
}

/* Its last byte is there, and nothing behind it. */
static enum linker_state after_check(struct linker *l)
{
	if (l->op.result == 1)
		return LINKER_FSYNC;
	l->rc = -ENOLINK;
	return LINKER_CLOSE;
}

static enum linker_state next_state(struct linker *l)
{
	int failed = l->op.result < 0 ? (int)l->op.result : 0;
	switch (l->state) {
	case LINKER_LINK:
		return after_link(l);
	case LINKER_OPEN:
		return after_open(l);
	case LINKER_CHECK:
		return after_check(l);
	case LINKER_FSYNC:
		l->rc = failed;
		return LINKER_CLOSE;
	case LINKER_CLOSE:
		return l->rc == -ENOLINK ? LINKER_UNLINK : LINKER_DONE;
	default: /* a name that stays would be in the way of the file that is written instead */
		l->rc = failed && failed != -ENOENT ? failed : l->rc;
		return LINKER_DONE;
	}
}

static void op_done(struct disk_op *op)
{
	struct linker *l = op->arg;
	l->state = next_state(l);
	enter(l);
}

static void submit(struct linker *l, struct disk_op op)
{
	l->op = op;
	l->op.done = op_done;
	l->op.arg = l;
	disk_submit(l->disk, &l->op);
}

static void enter(struct linker *l)
{
	switch (l->state) {
	case LINKER_LINK:
		submit(l,
		       (struct disk_op){
			       .kind = DISK_LINK, .dir = l->from, .name = l->name, .dir2 = l->dir, .name2 = l->name});
		return;
	case LINKER_OPEN:
		submit(l, (struct disk_op){.kind = DISK_OPEN, .dir = l->dir, .name = l->name});
		return;
	case LINKER_CHECK:
		submit(l, (struct disk_op){.kind = DISK_READ,
					   .file = l->file,
					   .buf = l->tail,
					   .offset = l->size - 1,
					   .len = sizeof(l->tail)});
		return;
	case LINKER_FSYNC:
		submit(l, (struct disk_op){.kind = DISK_FSYNC, .file = l->file});
		return;
	case LINKER_CLOSE:
		submit(l, (struct disk_op){.kind = DISK_CLOSE, .file = l->file});
		return;
	case LINKER_UNLINK:
		submit(l, (struct disk_op){.kind = DISK_UNLINK, .dir = l->dir, .name = l->name});
		return;
	case LINKER_DONE:
		l->done(l);
		return;
	}
}

void linker_start(struct linker *l)
{
	l->state = LINKER_LINK;
	l->rc = 0;
	l->file = -1;
	enter(l);
}
