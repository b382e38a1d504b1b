#include "writer.h"

#include <string.h>

static void step(struct writer *w);

static bool tolerated(const struct disk_op *op)
{
	return op->kind == DISK_ALLOCATE && (op->result == -EOPNOTSUPP || op->result == -ENOSYS);
}

static void op_done(struct disk_op *op)
{
	struct writer *w = op->arg;
	if (op->result < 0 && !w->rc && !tolerated(op))
		w->rc = (int)op->result;
	if (op->kind == DISK_OPEN && op->result >= 0)
		w->file = (int)op->result;
	if (--w->pending == 0)
		step(w);
}

static void submit(struct writer *w, struct disk_op op)
{
	struct disk_op *slot = &w->ops[w->pending++];
	*slot = op;
	slot->done = op_done;
	slot->arg = w;
	disk_submit(w->disk, slot);
}

/* All slots are filled before the first is submitted: a disk may complete at once, and must not find pending at 1. */
static void submit_extents(struct writer *w)
{
	struct disk_op *slots[WRITER_EXTENTS];
	unsigned n = 0;
	for (unsigned i = 0; i < WRITER_EXTENTS; i++) {
		const struct writer_extent *e = &w->extents[i];
		if (!e->len)
			continue;
		w->ops[n] = (struct disk_op){.kind = DISK_WRITE,
					     .file = w->file,
					     .buf = (void *)e->buf,
					     .offset = e->offset,
					     .len = e->len,
					     .done = op_done,
					     .arg = w};
		slots[n] = &w->ops[n];
		n++;
	}
	w->pending = n;
	for (unsigned i = 0; i < n; i++)
		disk_submit(w->disk, slots[i]);
	if (!n)
		step(w);
}

static enum writer_state next_state(const struct writer *w)
{
	if (w->state == WRITER_OPEN && w->rc)
		return WRITER_DONE;
	if (w->state < WRITER_CLOSE && w->rc)
		return WRITER_CLOSE;
	if (w->state == WRITER_OPEN && !(w->flags & DISK_DIRECT))
		return WRITER_WRITE;
	if (w->state == WRITER_WRITE && !(w->flags & DISK_DIRECT))
		return WRITER_FSYNC;
	return w->state + 1;
}

static void enter(struct writer *w)
{
	switch (w->state) {
	case WRITER_ALLOCATE:
		submit(w,
		       (struct disk_op){.kind = DISK_ALLOCATE, .file = w->file, .len = align_up(w->size, DISK_ALIGN)});
		return;
	case WRITER_WRITE:
		submit_extents(w);
		return;
	case WRITER_TRUNCATE:
		submit(w, (struct disk_op){.kind = DISK_TRUNCATE, .file = w->file, .offset = w->size});
		return;
	case WRITER_FSYNC:
		submit(w, (struct disk_op){.kind = DISK_FSYNC, .file = w->file});
		return;
	case WRITER_CLOSE:
		submit(w, (struct disk_op){.kind = DISK_CLOSE, .file = w->file});
		return;
	default:
		w->done(w);
	}
}

static void step(struct writer *w)
{
	w->state = next_state(w);
	enter(w);
}

void writer_start(struct writer *w)
{
	w->state = WRITER_OPEN;
	w->rc = 0;
	w->pending = 0;
	submit(w, (struct disk_op){.kind = DISK_OPEN, .dir = w->dir, .name = w->name, .flags = DISK_CREATE | w->flags});
}
