/* An engine on io_uring: one ring for each context. There are as many chunks as the submission queue has entries, so an entry is
 * never missing. */
#include "store/disk/disk_real.h"

#include "base/clock.h"
#include "base/log.h"

#include <liburing.h>
#include <stdlib.h>
#include <sys/eventfd.h>

enum { FTRUNCATE = 55 }; /* the kernel's number of the operation: an older liburing has no name for it */

struct uring {
	struct io_uring ring;
	bool told; /* that threads are missing */
};

static struct io_uring *ring_of(struct disk *d)
{
	return &((struct uring *)d->engine_state)->ring;
}

static int explain_setup(int rc, struct err *err)
{
	if (rc == -ENOSYS || rc == -EPERM)
		return err_set(err, rc,
			       "io_uring is forbidden here (%s): allow it in the container's seccomp profile "
			       "and in sysctl kernel.io_uring_disabled",
			       err_name(rc));
	if (rc == -ENOMEM)
		return err_set(err, rc, "no memory for an io_uring queue: raise the memlock limit (ulimit -l)");
	return err_set(err, rc, "cannot set up io_uring: %s", err_name(rc));
}

static bool knows(struct io_uring *ring, int operation)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool known = probe && io_uring_opcode_supported(probe, operation);
	if (probe)
		io_uring_free_probe(probe);
	return known;
}

/* A profile may allow the queue, and not its use: nothing that was submitted would ever end. */
static int try_nothing(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	io_uring_prep_nop(io_uring_get_sqe(ring));
	int rc = io_uring_submit_and_wait(ring, 1);
	if (rc < 0 || (rc = io_uring_peek_cqe(ring, &cqe)) < 0)
		return rc;
	io_uring_cqe_seen(ring, cqe);
	return 0;
}

static int uring_open(struct disk *d, struct err *err)
{
	struct uring *u = calloc(1, sizeof(*u));
	if (!u)
		return err_set(err, -ENOMEM, "no memory for an io_uring queue");
	struct io_uring *ring = &u->ring;
	int rc = io_uring_queue_init(DISK_REQUESTS, ring, 0);
	if (rc < 0) {
		free(u);
		return explain_setup(rc, err);
	}
	rc = try_nothing(ring);
	if (rc < 0)
		explain_setup(rc, err);
	else if ((rc = io_uring_register_eventfd(ring, d->event_fd)) < 0)
		err_set(err, rc, "cannot set up the event descriptor of io_uring: %s", err_name(rc));
	if (rc < 0) {
		io_uring_queue_exit(ring);
		free(u);
		return rc;
	}
	d->engine_state = u;
	d->truncates = knows(ring, FTRUNCATE);
	return 0;
}

static void uring_close(struct disk *d)
{
	io_uring_queue_exit(ring_of(d));
	free(d->engine_state);
}

static void prepare_transfer(const struct request *r, struct io_uring_sqe *sqe)
{
	bool fixed = r->index >= 0;
	if (r->kind == DISK_WRITE && fixed)
		io_uring_prep_write_fixed(sqe, r->file, r->buf, (unsigned)r->len, r->offset, r->index);
	else if (r->kind == DISK_WRITE)
		io_uring_prep_write(sqe, r->file, r->buf, (unsigned)r->len, r->offset);
	else if (fixed)
		io_uring_prep_read_fixed(sqe, r->file, r->buf, (unsigned)r->len, r->offset, r->index);
	else
		io_uring_prep_read(sqe, r->file, r->buf, (unsigned)r->len, r->offset);
}

static void prepare(const struct request *r, struct io_uring_sqe *sqe)
{
	switch (r->kind) {
	case DISK_MKDIR:
		io_uring_prep_mkdirat(sqe, r->dir, r->name, (mode_t)r->flags);
		return;
	case DISK_OPEN:
		io_uring_prep_openat(sqe, r->dir, r->name, r->flags, 0664);
		return;
	case DISK_WRITE:
		prepare_transfer(r, sqe);
		/* Mapping the blocks may wait for the journal (seen: over a second), which would be the submitter's wait. */
		io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
		return;
	case DISK_READ:
		prepare_transfer(r, sqe);
		return;
	case DISK_FSYNC:
		io_uring_prep_fsync(sqe, r->file, 0);
		return;
	case DISK_ALLOCATE:
		io_uring_prep_fallocate(sqe, r->file, 0, 0, (off_t)r->len);
		return;
	case DISK_LINK:
		io_uring_prep_linkat(sqe, r->dir, r->name, r->dir2, r->name2, 0);
		return;
	case DISK_RENAME:
		io_uring_prep_renameat(sqe, r->dir, r->name, r->dir2, r->name2, 0);
		return;
	case DISK_UNLINK:
	case DISK_RMDIR:
		io_uring_prep_unlinkat(sqe, r->dir, r->name, r->flags);
		return;
	case DISK_CLOSE:
		io_uring_prep_close(sqe, r->file);
		return;
	case DISK_TRUNCATE:
		io_uring_prep_rw(FTRUNCATE, sqe, r->file, NULL, 0, r->offset);
		return;
	}
}

static void uring_issue(struct disk *d, struct chunk *c)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring_of(d));
	prepare(&c->request, sqe);
	io_uring_sqe_set_data(sqe, c);
}

/* What the kernel does not take now stays prepared and is offered again in the next turn. The descriptor calls for that turn: nothing
 * else may be in flight that would. */
static void uring_enter(struct disk *d)
{
	if (!io_uring_sq_ready(ring_of(d)))
		return;
	int rc = io_uring_submit(ring_of(d));
	if (rc >= 0 && !io_uring_sq_ready(ring_of(d)))
		return;
	if (rc >= 0 || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY) {
		eventfd_write(d->event_fd, 1);
		return;
	}
	/* Nobody knows any more which buffers the kernel holds. */
	log_error("disk: io_uring_enter: %s: cannot go on", err_name(rc));
	abort();
}

/* Nothing is ever cancelled here: so the kernel says it where it cannot start a thread for what may wait. Others take -ECANCELED for
 * something that was given up on purpose, and -EAGAIN for a file that is none. */
static int lack_thread(struct disk *d)
{
	struct uring *u = d->engine_state;
	if (!u->told)
		log_error(
			"disk: the kernel cannot start a thread for io_uring: raise the limit of processes (ulimit -u, "
			"pids.max of the control group)");
	u->told = true;
	return -ENOMEM;
}

static struct chunk *uring_reap(struct disk *d)
{
	struct io_uring_cqe *cqe;
	if (io_uring_peek_cqe(ring_of(d), &cqe))
		return NULL;
	struct chunk *c = io_uring_cqe_get_data(cqe);
	c->res = cqe->res == -ECANCELED ? lack_thread(d) : cqe->res;
	io_uring_cqe_seen(ring_of(d), cqe);
	return c;
}

/* Timeout and interruption are seen by the caller's loop, a failure by the next enter(). */
static void uring_wait(struct disk *d, uint64_t ns)
{
	struct __kernel_timespec ts = {.tv_sec = (long long)(ns / CLOCK_NS_PER_S),
				       .tv_nsec = (long long)(ns % CLOCK_NS_PER_S)};
	struct io_uring_cqe *cqe;
	io_uring_submit_and_wait_timeout(ring_of(d), &cqe, 1, &ts, NULL);
}

static int uring_table(struct disk *d, unsigned entries)
{
	return io_uring_register_buffers_sparse(ring_of(d), entries);
}

static int uring_pin(struct disk *d, unsigned index, uintptr_t base, uint64_t size)
{
	struct iovec iov = {.iov_base = (void *)base, .iov_len = size};
	int rc = io_uring_register_buffers_update_tag(ring_of(d), index, &iov, NULL, 1);
	return rc < 0 ? rc : 0;
}

const struct engine engine_uring = {
	.name = "io_uring",
	.open = uring_open,
	.close = uring_close,
	.issue = uring_issue,
	.enter = uring_enter,
	.reap = uring_reap,
	.wait = uring_wait,
	.table = uring_table,
	.pin = uring_pin,
};
