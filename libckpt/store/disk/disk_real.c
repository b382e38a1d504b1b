#include "store/disk/disk_real.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/quoted.h"
#include "store/disk/denied.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>

/* ---- context */

/* CKPT_DISK_ENGINE: "uring" or "threads"; "auto" (the default) takes threads where io_uring is refused. */
static int open_engine(struct disk *d, struct err *err)
{
	const char *wanted = getenv("CKPT_DISK_ENGINE");
	bool any = !wanted || !*wanted || !strcmp(wanted, "auto");
	if (!any && strcmp(wanted, "uring") != 0 && strcmp(wanted, "threads") != 0)
		return err_set(err, -EINVAL, "CKPT_DISK_ENGINE is %s: it can be auto, uring or threads",
			       quoted(wanted).text);
	d->engine = !any && *wanted == 't' ? &engine_threads : &engine_uring;
	int rc = d->engine->open(d, err);
	if (rc != 0 && any) {
		log_debug("disk: %s: using threads instead", err ? err->text : err_name(rc));
		d->engine = &engine_threads;
		rc = d->engine->open(d, err);
	}
	if (rc < 0)
		d->engine = NULL;
	return rc;
}

static int setup(struct disk *d, struct err *err)
{
	d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->event_fd < 0)
		return err_set(err, -errno, "cannot make an event descriptor: %s", err_name(errno));
	int rc = open_engine(d, err);
	if (!rc)
		buffers_init(d);
	return rc;
}

static int open_root(struct disk *d, const char *path, struct err *err)
{
	d->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->root >= 0)
		return 0;
	int rc = -errno;
	err_set(err, rc, "cannot open the directory %s: %s", shown_path(path).text, err_name(rc));
	return denied_path(path, rc, err);
}

int disk_new(const char *root_path, struct disk **out, int *root, struct err *err)
{
	*out = NULL;
	struct disk *d = calloc(1, sizeof(*d));
	if (!d)
		return err_set(err, -ENOMEM, "no memory for an I/O context");
	d->event_fd = d->root = -1;
	list_init(&d->transfers);
	list_init(&d->others);
	list_init(&d->held);
	list_init(&d->finished);
	int rc = root_path ? open_root(d, root_path, err) : 0;
	if (!rc)
		rc = setup(d, err);
	if (rc < 0) {
		disk_free(d);
		return rc;
	}
	if (root)
		*root = d->root;
	*out = d;
	return 0;
}

void disk_free(struct disk *d)
{
	if (!d)
		return;
	fault_release(d, true);
	/* The kernel may still write into buffers of the caller: there is no way out but to wait. */
	while (d->pending) {
		if (!disk_poll(d, clock_deadline(10 * CLOCK_NS_PER_S)) && d->pending)
			log_warn("disk: %u operations have not come back for 10 s: waiting on", d->pending);
	}
	buffers_free(d);
	if (d->engine)
		d->engine->close(d);
	cleanup_close(&d->event_fd);
	cleanup_close(&d->root);
	free(d);
}

const char *disk_engine(const struct disk *d)
{
	return d->engine->name;
}

int disk_event_fd(struct disk *d)
{
	return d->event_fd;
}

unsigned disk_pending(const struct disk *d)
{
	return d->pending;
}

/* ---- submission */

static struct chunk *take_chunk(struct disk *d)
{
	for (int i = 0; i < DISK_REQUESTS; i++) {
		if (!d->chunks[i].op)
			return &d->chunks[i];
	}
	return NULL;
}

static void issue(struct disk *d, struct chunk *c)
{
	op_prepare(d, c);
	d->engine->issue(d, c);
}

static void pump_others(struct disk *d)
{
	while (!list_empty(&d->others) && d->others_in_flight < DISK_REQUESTS - DISK_DEPTH) {
		struct disk_op *op = list_entry(list_pop(&d->others), struct disk_op, link);
		struct chunk *c = take_chunk(d);
		*c = (struct chunk){.op = op};
		op->in_flight = 1;
		d->others_in_flight++;
		issue(d, c);
	}
}

/* One chunk each in turns: a small read does not wait for a large write to end. */
static void pump_transfers(struct disk *d)
{
	while (!list_empty(&d->transfers) && d->transfers_in_flight < DISK_DEPTH) {
		struct disk_op *op = list_entry(list_pop(&d->transfers), struct disk_op, link);
		struct chunk *c = take_chunk(d);
		*c = (struct chunk){.op = op};
		op_next_chunk(d, op, c);
		op->in_flight++;
		d->transfers_in_flight++;
		issue(d, c);
		if (op->issued < op->len)
			list_push(&d->transfers, &op->link);
	}
}

static void pump(struct disk *d)
{
	pump_others(d);
	pump_transfers(d);
	d->engine->enter(d);
}

static void finish(struct disk *d, struct disk_op *op)
{
	if (d->fault.corrupts)
		fault_damage(d, op);
	power_end(op);
	op_finish(op);
	list_push(&d->finished, &op->link);
}

void disk_wake(struct disk *d)
{
	uint64_t one = 1;
	/* Fails only when the counter is full: then it is readable already. */
	ssize_t ignored = write(d->event_fd, &one, sizeof(one));
	(void)ignored;
}

void disk_begin(struct disk *d, struct disk_op *op)
{
	op->end = op->first = op->len;
	power_begin(op);
	if (op_start(d, op)) {
		finish(d, op);
		disk_wake(d);
		return;
	}
	list_push(op_is_transfer(op) ? &d->transfers : &d->others, &op->link);
	pump(d);
}

void disk_submit(struct disk *d, struct disk_op *op)
{
	op->result = 0;
	op->issued = op->in_flight = 0;
	list_init(&op->link);
	d->pending++;
	if (!fault_holds(d, op))
		disk_begin(d, op);
}

/* ---- completion */

static void release(struct disk *d, struct chunk *c)
{
	struct disk_op *op = c->op;
	c->op = NULL;
	op->in_flight--;
	if (!op_is_transfer(op)) {
		d->others_in_flight--;
		finish(d, op);
		return;
	}
	d->transfers_in_flight--;
	/* A failed transfer issues nothing more: op_completed has moved `issued` to the end. */
	if (op->issued < op->len)
		return;
	list_remove(&op->link);
	if (!op->in_flight)
		finish(d, op);
}

static void take_in(struct disk *d)
{
	struct chunk *c;
	while ((c = d->engine->reap(d))) {
		if (op_completed(d, c, c->res))
			issue(d, c);
		else
			release(d, c);
	}
}

static void reap(struct disk *d)
{
	take_in(d);
	pump(d);
}

void disk_settle(struct disk *d, uint64_t deadline)
{
	for (;;) {
		take_in(d);
		d->engine->enter(d);
		uint64_t now = clock_now();
		if (!(d->transfers_in_flight + d->others_in_flight) || now >= deadline)
			return;
		d->engine->wait(d, deadline - now);
	}
}

/* Calls done for what is finished now; what finishes inside (operations submitted by done) is for the next turn, so that a
 * caller that retries for ever is still given back its thread. */
static int run_finished(struct disk *d)
{
	int ready = 0, n = 0;
	list_for(it, &d->finished)
		ready++;
	for (; n < ready; n++) {
		struct list *link = list_pop(&d->finished);
		if (!link)
			break; /* a nested poll took the rest */
		struct disk_op *op = list_entry(link, struct disk_op, link);
		d->pending--;
		op->done(op);
	}
	if (!list_empty(&d->finished))
		disk_wake(d);
	return n;
}

static void wait_one(struct disk *d, uint64_t deadline)
{
	uint64_t now = clock_now();
	deadline = min_u64(deadline, fault_next(d));
	if (deadline <= now || !list_empty(&d->finished))
		return;
	d->engine->wait(d, min_u64(deadline - now, 3600 * CLOCK_NS_PER_S));
}

int disk_poll(struct disk *d, uint64_t deadline)
{
	for (;;) {
		uint64_t drained;
		ssize_t ignored = read(d->event_fd, &drained, sizeof(drained));
		(void)ignored;
		fault_release(d, false);
		reap(d);
		int n = run_finished(d);
		if (n || !d->pending || clock_now() >= deadline)
			return n;
		wait_one(d, deadline);
	}
}
