#include "upkeep/gc_delete.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"

/* A debt below this is not worth a pause: ticks are coarser. */
#define CREDIT_NS (20 * CLOCK_NS_PER_MS)

static void advance(struct disk_op *op);

static void set_state(struct sweep *s, enum sweep_state state, struct disk_op op)
{
	s->state = state;
	s->op = op;
	s->op.done = advance;
	s->op.arg = s;
	disk_submit(s->disk, &s->op);
}

static void finish(struct sweep *s)
{
	s->state = SWEEP_IDLE;
	s->done(s);
}

static void fail(struct sweep *s, int rc)
{
	s->rc = s->rc ? s->rc : rc;
}

static void close_dir(struct sweep *s)
{
	set_state(s, SWEEP_CLOSE, (struct disk_op){.kind = DISK_CLOSE, .file = s->dir});
}

/* A failpoint takes the place of the operation's result. */
static int checked(const char *point, int64_t result)
{
	int rc = failpoint(point, NULL);
	return rc ? rc : result < 0 ? (int)result : 0;
}

static void next_file(struct sweep *s)
{
	if (s->rc || s->stop || s->at == s->nfiles) {
		close_dir(s);
		return;
	}
	if (s->paid_ns > clock_now() + CREDIT_NS) {
		s->state = SWEEP_PAUSE;
		return;
	}
	set_state(s, SWEEP_UNLINK, (struct disk_op){.kind = DISK_UNLINK, .dir = s->dir, .name = s->files[s->at].name});
}

static void pay(struct sweep *s, uint64_t bytes)
{
	uint64_t now = clock_now(), cost = (uint64_t)((double)bytes / (1 << 30) * (double)s->pace(s->arg));
	s->paid_ns = (s->paid_ns > now ? s->paid_ns : now) + cost;
	s->freed += bytes;
}

static void opened(struct sweep *s, int64_t result)
{
	if (result < 0) {
		fail(s, result == -ENOENT ? 0 : (int)result); /* somebody else has swept it */
		finish(s);
		return;
	}
	s->dir = (int)result;
	int rc = failpoint("gc.open", NULL);
	if (rc || s->stop) {
		fail(s, rc);
		close_dir(s);
		return;
	}
	set_state(s, SWEEP_MANIFEST, (struct disk_op){.kind = DISK_UNLINK, .dir = s->dir, .name = NAME_MANIFEST});
}

static void unlinked(struct sweep *s, int64_t result)
{
	const struct trash_file *file = &s->files[s->at++];
	int rc = checked("gc.unlink", result);
	if (rc && rc != -ENOENT)
		fail(s, rc);
	else if (!rc)
		pay(s, file->bytes);
	next_file(s);
}

static void advance(struct disk_op *op)
{
	struct sweep *s = op->arg;
	int64_t result = op->result;
	int rc;
	switch (s->state) {
	case SWEEP_OPEN:
		opened(s, result);
		return;
	case SWEEP_MANIFEST:
		rc = checked("gc.manifest", result);
		fail(s, rc == -ENOENT ? 0 : rc);
		next_file(s);
		return;
	case SWEEP_UNLINK:
		unlinked(s, result);
		return;
	case SWEEP_CLOSE:
		if (s->rc || s->stop)
			finish(s);
		else
			set_state(s, SWEEP_RMDIR,
				  (struct disk_op){.kind = DISK_RMDIR, .dir = s->job_dir, .name = s->name});
		return;
	case SWEEP_RMDIR:
		rc = checked("gc.rmdir", result);
		fail(s, rc == -ENOENT ? 0 : rc);
		finish(s);
		return;
	case SWEEP_IDLE:
	case SWEEP_PAUSE:
		return; /* nothing is in flight */
	}
}

void sweep_start(struct sweep *s)
{
	s->dir = -1;
	set_state(s, SWEEP_OPEN,
		  (struct disk_op){.kind = DISK_OPEN, .dir = s->job_dir, .name = s->name, .flags = DISK_DIR});
}

void sweep_tick(struct sweep *s)
{
	if (s->state == SWEEP_PAUSE)
		next_file(s);
}

void sweep_stop(struct sweep *s)
{
	s->stop = true;
	sweep_tick(s);
}
