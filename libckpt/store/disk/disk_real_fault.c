#include "store/disk/disk_real.h"

#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void disk_break(struct disk *d, int rc, uint64_t until)
{
	d->fault = (struct disk_fault){.rc = rc, .until = until};
}

void disk_hold(struct disk *d, uint64_t delay_ns, uint64_t until)
{
	d->fault = (struct disk_fault){.delay = delay_ns, .until = until};
}

void disk_corrupt(struct disk *d, uint64_t until)
{
	d->fault = (struct disk_fault){.corrupts = true, .until = until};
}

uint64_t disk_hits(const struct disk *d)
{
	return d->fault.hits;
}

const char *disk_hit_file(const struct disk *d, uint64_t *at)
{
	*at = d->fault.at;
	return d->fault.file;
}

/* ---- what is held -------------------------------------------------------------------------------------------------- */

bool fault_holds(struct disk *d, struct disk_op *op)
{
	uint64_t due = d->fault.delay ? disk_fault_due(&d->fault, clock_now()) : 0;
	if (!due)
		return false;
	op->end = due;
	list_push(&d->held, &op->link);
	return true;
}

uint64_t fault_next(const struct disk *d)
{
	uint64_t next = UINT64_MAX;
	list_for(it, &d->held)
		next = min_u64(next, list_entry(it, struct disk_op, link)->end);
	return next;
}

void fault_release(struct disk *d, bool all)
{
	struct list stay;
	uint64_t now = list_empty(&d->held) ? 0 : clock_now();
	list_init(&stay);
	for (struct list *link; (link = list_pop(&d->held));) {
		struct disk_op *op = list_entry(link, struct disk_op, link);
		if (all || op->end <= now)
			disk_begin(d, op);
		else
			list_push(&stay, link);
	}
	for (struct list *link; (link = list_pop(&stay));)
		list_push(&d->held, link);
}

void disk_let_go(struct disk *d)
{
	fault_release(d, false);
}

/* ---- what is damaged ----------------------------------------------------------------------------------------------- */

static bool name_of(int file, char name[DISK_HIT_MAX])
{
	char link[48];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	ssize_t n = readlink(link, name, DISK_HIT_MAX - 1);
	name[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

/* Direct I/O takes whole blocks alone. */
static bool put_byte(int file, uint8_t byte, uint64_t at)
{
	int flags = fcntl(file, F_GETFL);
	if (flags < 0 || fcntl(file, F_SETFL, flags & ~O_DIRECT) < 0)
		return false;
	bool done = pwrite(file, &byte, 1, (off_t)at) == 1;
	return fcntl(file, F_SETFL, flags) == 0 && done;
}

void fault_damage(struct disk *d, const struct disk_op *op)
{
	char name[DISK_HIT_MAX];
	uint64_t at;
	if (op->kind != DISK_WRITE || !name_of(op->file, name) ||
	    !disk_fault_byte(&d->fault, op, name, clock_now(), &at))
		return;
	if (!put_byte(op->file, ((const uint8_t *)op->buf)[at] ^ 8, op->offset + at))
		return;
	d->fault.hits++;
	d->fault.at = op->offset + at;
	snprintf(d->fault.file, sizeof(d->fault.file), "%s", name);
}
