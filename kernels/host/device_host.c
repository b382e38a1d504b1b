/* The host device: state in ordinary memory. One worker thread per device runs the launches in order; fence waits on a
 * condition. Invariants, under the lock: a plan is in the queue or `running` exactly while it is in flight; each plan
 * is in the queue at most once, so the queue is bounded by the plans. While the queue is empty the worker touches the arena. */
#include "host_copy.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/list.h"
#include "base/threads.h"
#include "format/tensor/digest.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { RESTORE_THREADS_MAX = 8, RESTORE_EACH = 2 << 20 }; /* bytes for which a thread more is worth while */
enum { TOUCH_SLICE = 4 << 20 };                           /* a launch waits for one at most: a millisecond or two */

struct device {
	pthread_mutex_t lock;
	pthread_cond_t work;  /* the queue is not empty, or closing */
	pthread_cond_t ended; /* a launch has ended */
	pthread_t worker;
	struct list queue; /* of plans in flight that wait for the worker */
	struct plan *running;
	struct {
		char *base; /* of the attached arena; NULL: none */
		size_t at, size;
		bool running;
	} touch;
	bool closing;
	unsigned holders; /* the opener until close, and each plan */
	void *bounce;     /* LEAF_SIZE bytes of the worker */
};

enum plan_state { PLAN_NEW, PLAN_FLYING, PLAN_ENDED };

struct plan {
	struct list entry; /* in device.queue, or alone */
	struct device *dev;
	void *base;
	uint64_t granule;
	struct span_list list;
	struct capture_target target;
	unsigned flags;
	_Atomic bool cancel;
	enum plan_state state; /* with rc and bad_leaf under the device's lock */
	int rc;
	uint64_t bad_leaf;
};

/* ---- the worker ---- */

static int capture(struct plan *plan, uint64_t *bad_leaf)
{
	void *bounce = plan->dev->bounce;
	int rc = failpoint("device.copy", NULL);
	if (rc == 0)
		rc = host_capture(&plan->list, plan->base, plan->granule, &plan->target, bounce, &plan->cancel);
	/* After all copies, not leaf by leaf: the window in which a mutation is seen reaches to the end of the capture.
	 * */
	if (rc == 0 && plan->flags & CAPTURE_STRICT)
		rc = host_compare(&plan->list, plan->target.before, bad_leaf, bounce, &plan->cancel);
	return rc;
}

/* With the lock held. */
static void end_launch(struct plan *plan, int rc, uint64_t bad_leaf)
{
	plan->rc = rc;
	plan->bad_leaf = bad_leaf;
	plan->state = PLAN_ENDED;
	/* Before the waiters are told: after that the arena may be gone. */
	atomic_store_explicit(plan->target.done, rc ? (uint32_t)rc : 1, memory_order_release);
	pthread_cond_broadcast(&plan->dev->ended);
}

/* The arena's pages enter this process's page table while there is nothing to copy: else the first capture into each slot would
 * pay for it, and be ten times as slow. With the lock held, which is given up meanwhile. */
static void touch_slice(struct device *dev)
{
	char *p = dev->touch.base + dev->touch.at;
	size_t n = min_u64(TOUCH_SLICE, dev->touch.size - dev->touch.at);
	dev->touch.at += n;
	dev->touch.running = true;
	pthread_mutex_unlock(&dev->lock);
	int rc = madvise(p, n, MADV_POPULATE_WRITE); /* since Linux 5.14; refused above a memory limit */
	pthread_mutex_lock(&dev->lock);
	dev->touch.running = false;
	if (rc)
		dev->touch.at = dev->touch.size;
	pthread_cond_broadcast(&dev->ended);
}

static void *work(void *arg)
{
	struct device *dev = arg;
	/* A batch thread does not preempt the one that wakes it: without this, launch returns milliseconds late on a
	 * busy machine. Where it is refused, nothing else changes. */
	(void)sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
	LOCK_SCOPE(&dev->lock);
	while (!dev->closing) {
		struct list *entry = list_pop(&dev->queue);
		if (!entry && dev->touch.at < dev->touch.size) {
			touch_slice(dev);
			continue;
		}
		if (!entry) {
			pthread_cond_wait(&dev->work, &dev->lock);
			continue;
		}
		struct plan *plan = dev->running = list_entry(entry, struct plan, entry);
		uint64_t bad_leaf = 0;
		pthread_mutex_unlock(&dev->lock);
		int rc = capture(plan, &bad_leaf);
		pthread_mutex_lock(&dev->lock);
		dev->running = NULL;
		end_launch(plan, rc, bad_leaf);
	}
	return NULL;
}

/* The trainer's signals belong to the trainer's threads; only those that a thread raises in itself stay open. */
static int start_worker(struct device *dev)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	sigset_t mask;
	pthread_attr_t attr;
	sigfillset(&mask);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&mask, own[i]);
	int rc = -pthread_attr_init(&attr);
	if (rc < 0)
		return rc;
	rc = -pthread_attr_setsigmask_np(&attr, &mask);
	if (rc == 0)
		rc = -pthread_create(&dev->worker, &attr, work, dev);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		pthread_setname_np(dev->worker, "ckpt-copy");
	return rc;
}

/* ---- the device ---- */

static void device_free(struct device *dev)
{
	pthread_cond_destroy(&dev->ended);
	pthread_cond_destroy(&dev->work);
	pthread_mutex_destroy(&dev->lock);
	free(dev->bounce);
	free(dev);
}

static void release(struct device *dev)
{
	pthread_mutex_lock(&dev->lock);
	unsigned left = --dev->holders;
	pthread_mutex_unlock(&dev->lock);
	if (!left)
		device_free(dev);
}

static int host_open(int ordinal, struct device **out, struct err *err)
{
	*out = NULL;
	if (ordinal != DEVICE_HOST)
		return err_set(err, -EINVAL, "the host device has no ordinal %d", ordinal);
	struct device *dev = calloc(1, sizeof(*dev));
	if (!dev)
		return err_set(err, -ENOMEM, "out of memory for the host device");
	pthread_mutex_init(&dev->lock, NULL);
	pthread_cond_init(&dev->work, NULL);
	pthread_cond_init(&dev->ended, NULL);
	list_init(&dev->queue);
	dev->holders = 1;
	dev->bounce = malloc(LEAF_SIZE);
	int rc = dev->bounce ? start_worker(dev) : -ENOMEM;
	if (rc < 0) {
		device_free(dev);
		return err_set(err, rc, "cannot start the host device's worker: %s", err_name(rc));
	}
	*out = dev;
	return 0;
}

static void host_close(struct device *dev)
{
	if (!dev)
		return;
	pthread_mutex_lock(&dev->lock);
	dev->closing = true;
	if (dev->running)
		atomic_store(&dev->running->cancel, true);
	list_for_safe(it, &dev->queue) {
		list_remove(it);
		end_launch(list_entry(it, struct plan, entry), -ECANCELED, 0);
	}
	pthread_cond_signal(&dev->work);
	pthread_mutex_unlock(&dev->lock);
	pthread_join(dev->worker, NULL);
	release(dev);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / CLOCK_NS_PER_S), .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
}

static bool host_digests(const struct device *dev)
{
	(void)dev;
	return true;
}

static int host_idle(struct device *dev, uint64_t deadline, struct err *err)
{
	struct timespec until = timespec_of(deadline);
	LOCK_SCOPE(&dev->lock);
	while (dev->running || !list_empty(&dev->queue))
		if (pthread_cond_clockwait(&dev->ended, &dev->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT &&
		    (dev->running || !list_empty(&dev->queue)))
			return err_set(err, -ETIMEDOUT, "state of the host is still being copied");
	return 0;
}

/* One arena at a time is touched; another mapping works as well, its first captures are slower. */
static int host_attach(struct device *dev, void *base, size_t size, struct err *err)
{
	(void)err;
	LOCK_SCOPE(&dev->lock);
	if (dev->touch.base)
		return 0;
	dev->touch.base = base;
	dev->touch.at = 0;
	dev->touch.size = size;
	pthread_cond_signal(&dev->work);
	return 0;
}

static void host_detach(struct device *dev, void *base)
{
	LOCK_SCOPE(&dev->lock);
	if (dev->touch.base != base)
		return;
	dev->touch.at = dev->touch.size;
	while (dev->touch.running)
		pthread_cond_wait(&dev->ended, &dev->lock);
	dev->touch.base = NULL;
}

/* ---- plans ---- */

static int host_plan_new(struct device *dev, void *base, const struct span *spans, size_t n, uint64_t granule,
			 unsigned flags, struct plan **out, struct err *err)
{
	*out = NULL;
	if (flags & PLAN_STAGED)
		return err_set(err, -EOPNOTSUPP, "state on the host has no memory of a device to be staged in");
	if (!granule)
		return err_set(err, -EINVAL, "the granule of a plan is 0 bytes");
	AUTO_FREE struct plan *plan = calloc(1, sizeof(*plan));
	if (!plan)
		return err_set(err, -ENOMEM, "out of memory for a plan");
	int rc = span_list_init(&plan->list, spans, n, err);
	if (rc < 0)
		return rc;
	list_init(&plan->entry);
	plan->dev = dev;
	plan->base = base;
	plan->granule = granule;
	LOCK_SCOPE(&dev->lock);
	dev->holders++;
	*out = steal_ptr(&plan);
	return 0;
}

static void host_plan_free(struct plan *plan)
{
	if (!plan)
		return;
	struct device *dev = plan->dev;
	pthread_mutex_lock(&dev->lock);
	if (plan->state == PLAN_FLYING && dev->running != plan) {
		list_remove(&plan->entry);
		end_launch(plan, -ECANCELED, 0);
	}
	/* Bounded by the copy of one leaf. */
	atomic_store(&plan->cancel, true);
	while (plan->state == PLAN_FLYING)
		pthread_cond_wait(&dev->ended, &dev->lock);
	pthread_mutex_unlock(&dev->lock);
	span_list_free(&plan->list);
	free(plan);
	release(dev);
}

static int digest_before(struct plan *plan, const struct capture_target *target, struct err *err)
{
	if (!target->before)
		return err_set(err, -EINVAL, "a strict capture of host memory needs room for the digests before it");
	AUTO_FREE void *bounce = malloc(LEAF_SIZE);
	if (!bounce)
		return err_set(err, -ENOMEM, "out of memory for a bounce buffer");
	host_digest(&plan->list, target->before, bounce);
	return 0;
}

static int check_idle(struct plan *plan, struct err *err)
{
	LOCK_SCOPE(&plan->dev->lock);
	if (plan->dev->closing)
		return err_set(err, -ECANCELED, "the host device was closed");
	if (plan->state == PLAN_FLYING)
		return err_set(err, -EBUSY, "the plan's previous launch is still copying");
	return 0;
}

static int host_plan_rebind(struct plan *plan, const struct span *spans, size_t n, struct err *err)
{
	struct span_list list;
	int rc = check_idle(plan, err);
	if (rc == 0)
		rc = span_list_again(&list, &plan->list, spans, n, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&plan->dev->lock); /* a fence may tell the bytes of the list */
	struct span_list former = plan->list;
	plan->list = list;
	pthread_mutex_unlock(&plan->dev->lock);
	span_list_free(&former);
	return 0;
}

/* Nothing else looks at the spans of a plan that is not in flight. */
static int host_plan_move(struct plan *plan, const struct span *spans, const uint32_t *which, size_t n, struct err *err)
{
	int rc = check_idle(plan, err);
	return rc < 0 ? rc : span_list_move(&plan->list, spans, which, n, err);
}

static int host_launch(struct plan *plan, void *stream, const struct capture_target *target, unsigned flags,
		       struct err *err)
{
	(void)stream;
	struct device *dev = plan->dev;
	int rc = check_idle(plan, err);
	if (rc == 0 && (rc = failpoint("device.launch", NULL)) < 0)
		err_set(err, rc, "cannot start the copy: %s", err_name(rc));
	if (rc == 0 && flags & CAPTURE_STRICT)
		rc = digest_before(plan, target, err);
	if (rc < 0)
		return rc;
	LOCK_SCOPE(&dev->lock);
	if (dev->closing)
		return err_set(err, -ECANCELED, "the host device was closed");
	plan->target = *target;
	plan->flags = flags;
	atomic_store(&plan->cancel, false);
	atomic_store(target->progress, 0);
	atomic_store(target->done, 0);
	plan->state = PLAN_FLYING;
	list_push(&dev->queue, &plan->entry);
	pthread_cond_signal(&dev->work);
	return 0;
}

static int host_fence(struct plan *plan, uint32_t group, void *stream, uint64_t deadline, uint64_t *bad_leaf,
		      struct err *err)
{
	(void)group;
	(void)stream;
	struct device *dev = plan->dev;
	struct timespec until = timespec_of(deadline);
	LOCK_SCOPE(&dev->lock);
	if (plan->state == PLAN_NEW)
		return err_set(err, -EINVAL, "the plan was never launched");
	while (plan->state == PLAN_FLYING)
		if (pthread_cond_clockwait(&dev->ended, &dev->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT &&
		    plan->state == PLAN_FLYING)
			return err_set(err, -ETIMEDOUT, "%" PRIu64 " of %" PRIu64 " bytes were copied by the deadline",
				       atomic_load(plan->target.progress), plan->list.bytes);
	if (plan->rc == -EBADMSG) {
		if (bad_leaf)
			*bad_leaf = plan->bad_leaf;
		return err_set(err, -EBADMSG, "leaf %" PRIu64 " was changed while it was captured", plan->bad_leaf);
	}
	return plan->rc ? err_set(err, plan->rc, "the copy failed: %s", err_name(plan->rc)) : 0;
}

/* Bounded by the copy of one leaf. */
static void host_cancel(struct plan *plan)
{
	LOCK_SCOPE(&plan->dev->lock);
	if (plan->state == PLAN_FLYING)
		atomic_store(&plan->cancel, true);
}

static int host_device_restore(struct device *dev, const void *base, const struct span *spans, size_t n,
			       const uint64_t *leaves, void *stream, uint64_t *bad_leaf, struct err *err)
{
	(void)dev;
	(void)stream;
	struct span_list list;
	int rc = failpoint("device.restore", NULL);
	if (rc < 0)
		return err_set(err, rc, "cannot copy the state back: %s", err_name(rc));
	rc = span_list_init(&list, spans, n, err);
	if (rc < 0)
		return rc;
	uint64_t leaf = 0;
	unsigned threads = threads_default((unsigned)min_u64(list.bytes / RESTORE_EACH, RESTORE_THREADS_MAX));
	AUTO_FREE void *bounce = malloc((size_t)threads * LEAF_SIZE);
	rc = bounce ? host_restore(&list, base, leaves, &leaf, bounce, threads) : -ENOMEM;
	span_list_free(&list);
	if (rc == 0)
		return 0;
	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory for %u bounce buffers", threads);
	if (bad_leaf)
		*bad_leaf = leaf;
	return err_set(err, rc, "leaf %" PRIu64 " arrived with another digest than it was captured with", leaf);
}

const struct device_ops device_host = {
	.name = "host",
	.open = host_open,
	.close = host_close,
	.digests = host_digests,
	.idle = host_idle,
	.arena_attach = host_attach,
	.arena_detach = host_detach,
	.plan_new = host_plan_new,
	.plan_free = host_plan_free,
	.plan_rebind = host_plan_rebind,
	.plan_move = host_plan_move,
	.plan_launch = host_launch,
	.plan_fence = host_fence,
	.plan_cancel = host_cancel,
	.restore = host_device_restore,
};
