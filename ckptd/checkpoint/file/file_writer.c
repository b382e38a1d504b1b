#include "checkpoint/file/file_writer.h"

#include <string.h>

static void step(struct writer *w);
static void piece_done(struct writer *w);
static void submit_extents(struct writer *w);

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
	if (--w->pending)
		return;
	if (w->pieces)
		piece_done(w);
	else if (w->state == WRITER_WRITE)
		submit_extents(w);
	else
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

/* NULL: there are no more. */
static const struct writer_extent *extent_of(const struct writer *w, uint32_t i)
{
	if (i < WRITER_EXTENTS)
		return &w->extents[i];
	return i - WRITER_EXTENTS < w->nmore ? &w->more[i - WRITER_EXTENTS] : NULL;
}

static unsigned fill_ops(struct writer *w)
{
	const struct writer_extent *e;
	unsigned n = 0;
	while (n < WRITER_OPS && (e = extent_of(w, w->extent))) {
		w->extent++;
		if (e->len)
			w->ops[n++] = (struct disk_op){.kind = DISK_WRITE,
						       .file = w->file,
						       .buf = (void *)e->buf,
						       .offset = e->offset,
						       .len = e->len,
						       .done = op_done,
						       .arg = w};
	}
	return n;
}

/* The next ones. All slots are filled before the first is submitted: a disk may complete at once, and must not find pending at 1. */
static void submit_extents(struct writer *w)
{
	unsigned n = w->rc ? 0 : fill_ops(w);
	w->pending = n;
	for (unsigned i = 0; i < n; i++)
		disk_submit(w->disk, &w->ops[i]);
	if (!n)
		step(w);
}

/* ---- piece by piece ----------------------------------------------------------------------------------------------- */

static void piece_goes(struct turn *turn)
{
	struct writer *w = list_entry(turn, struct writer, turn);
	const struct writer_extent *e = extent_of(w, w->extent);
	if (!turn->bytes) { /* cancelled */
		piece_done(w);
		return;
	}
	submit(w, (struct disk_op){.kind = DISK_WRITE,
				   .file = w->file,
				   .buf = (char *)e->buf + w->at,
				   .offset = e->offset + w->at,
				   .len = turn->bytes});
	w->at += turn->bytes;
}

/* Of the extent from `at` on; direct I/O takes whole blocks. */
static uint64_t piece_ready(const struct writer *w, const struct writer_extent *e)
{
	uint64_t ready = w->ready ? w->ready(w, e) : e->len;
	return (ready < e->len ? ready / DISK_ALIGN * DISK_ALIGN : e->len) - w->at;
}

static void ask_for_piece(struct writer *w)
{
	const struct writer_extent *e;
	while ((e = extent_of(w, w->extent)) && w->at == e->len) {
		w->extent++;
		w->at = 0;
	}
	if (w->rc || !e) {
		w->pieces = false;
		step(w);
		return;
	}
	w->turn = (struct turn){.job = w->bucket, .bytes = piece_ready(w, e), .go = piece_goes};
	w->starved = !w->turn.bytes;
	if (w->starved)
		return;
	if (w->throttle)
		throttle_ask(w->throttle, &w->turn);
	else
		piece_goes(&w->turn);
}

void writer_more(struct writer *w)
{
	if (!w->starved)
		return;
	w->starved = false;
	ask_for_piece(w);
}

static void piece_done(struct writer *w)
{
	if (w->moved)
		w->moved(w);
	ask_for_piece(w);
}

static void write_extents(struct writer *w)
{
	w->pieces = w->ready || (w->throttle && throttle_limited(w->throttle, w->bucket));
	w->extent = 0;
	w->at = 0;
	if (w->pieces)
		ask_for_piece(w);
	else
		submit_extents(w);
}

void writer_cancel(struct writer *w, int rc)
{
	w->cancelled = rc;
	if (!w->pieces || w->rc)
		return;
	w->rc = rc;
	w->turn.bytes = 0;
	writer_more(w);
}

/* ---- the machine -------------------------------------------------------------------------------------------------- */

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
		w->rc = w->cancelled;
		if (w->rc)
			step(w);
		else if (w->fill)
			w->fill(w);
		else
			write_extents(w);
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

void writer_filled(struct writer *w, int rc, uint64_t size)
{
	w->rc = rc;
	w->size = size;
	step(w);
}

void writer_start(struct writer *w)
{
	w->state = WRITER_OPEN;
	w->rc = 0;
	w->pending = 0;
	w->cancelled = 0;
	w->pieces = w->starved = false;
	submit(w, (struct disk_op){.kind = DISK_OPEN, .dir = w->dir, .name = w->name, .flags = DISK_CREATE | w->flags});
}
