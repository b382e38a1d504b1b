/* Which slots can be captured to. The host's memory is reachable for a GPU when it is pinned, which takes a second for some gigabytes: the slot that
 * is taken first is made ready at the join, the others by a thread behind it. A slot is pinned when the daemon has collected its pages: pinned
 * ones stay as small as they are. */
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "ckpt.h"
#include "client/capture/capture.h"

#include <signal.h>
#include <time.h>

/* A daemon that collects no pages meanwhile will not; an older one does not tell. */
#define SETTLE_PATIENCE (10 * CLOCK_NS_PER_S)
/* Between two questions whether a GPU is idle; it has no way to tell. */
#define IDLE_PAUSE (20 * CLOCK_NS_PER_MS)

static bool on_gpu(const struct capture_device *d)
{
	return d->ordinal != CKPT_HOST;
}

static bool any_gpu(const struct capture *c)
{
	bool any = false;
	for (uint32_t i = 0; i < c->nactive; i++)
		any |= on_gpu(&c->devices[i]);
	return any;
}

bool capture_slot_ready(const struct capture *c, uint32_t slot)
{
	return atomic_load_explicit(&c->slots.ready[slot], memory_order_acquire);
}

/* ---- one slot ------------------------------------------------------------------------------------------------------ */

/* The pages up to there are in memory, and as large as they will be; or nobody is at it. false: not wanted any more. */
static bool await_pages(struct capture *c, uint64_t end)
{
	struct arena_head *head = arena_head(c->arena);
	uint64_t there = 0, deadline = clock_deadline(SETTLE_PATIENCE);
	while (!atomic_load(&c->slots.stop)) {
		uint32_t seen = atomic_load_explicit(&head->wake, memory_order_acquire);
		uint64_t now = atomic_load_explicit(&head->settled, memory_order_acquire);
		if (now >= end || clock_now() >= deadline)
			return true;
		if (now > there)
			deadline = clock_deadline(SETTLE_PATIENCE);
		there = now;
		arena_sleep(c->arena, seen, deadline);
	}
	return false;
}

static int attach(struct capture *c, uint32_t slot, struct err *err)
{
	for (uint32_t i = 0; i < c->nactive; i++) {
		struct capture_device *d = &c->devices[i];
		if (!on_gpu(d))
			continue;
		int rc = d->ops->arena_attach(d->dev, arena_slot_data(c->arena, slot), c->arena->slot_size, err);
		if (rc)
			return err_prefix(err, rc, "device %d, slot %u", d->ordinal, slot);
		d->slots |= 1u << slot;
	}
	return 0;
}

static bool all_idle(const struct capture *c)
{
	bool idle = true;
	struct err ignored = {0};
	for (uint32_t i = 0; i < c->nactive; i++)
		idle &= !on_gpu(&c->devices[i]) ||
			c->devices[i].ops->idle(c->devices[i].dev, 0, &ignored) != -ETIMEDOUT;
	return idle;
}

/* With the lock of the devices, and while they do nothing: what is made here waits for what their streams are at, and a save would wait for
 * the lock. false: not wanted any more. */
static bool lock_idle(struct capture *c)
{
	struct timespec pause = {.tv_nsec = IDLE_PAUSE};
	while (!atomic_load(&c->slots.stop)) {
		pthread_mutex_lock(&c->slots.devices);
		if (all_idle(c))
			return true;
		pthread_mutex_unlock(&c->slots.devices);
		nanosleep(&pause, NULL);
	}
	return false;
}

static int make_ready(struct capture *c, uint32_t slot, struct err *err)
{
	struct arena *arena = c->arena;
	if (any_gpu(c) && !await_pages(c, arena->slots_at + (slot + 1) * arena->slot_size))
		return -ECANCELED;
	int rc = attach(c, slot, err);
	if (rc)
		return rc;
	if (!lock_idle(c))
		return -ECANCELED;
	rc = capture_plans_make(c, slot, err);
	pthread_mutex_unlock(&c->slots.devices);
	if (rc)
		return rc;
	atomic_store_explicit(&c->slots.ready[slot], true, memory_order_release);
	arena_wake(arena);
	return 0;
}

/* ---- all of them --------------------------------------------------------------------------------------------------- */

/* A rank that comes back finds what it saved in some of them: the first save goes to one that is free. */
static uint32_t first_slot(const struct capture *c)
{
	for (uint32_t i = 0; i < c->arena->nslots; i++)
		if (atomic_load(&arena_head(c->arena)->slots[i].state) == SLOT_FREE)
			return i;
	return 0;
}

static void *make_others(void *arg)
{
	struct capture *c = arg;
	int rc = 0;
	for (uint32_t slot = 0; slot < c->arena->nslots && rc != -ECANCELED; slot++) {
		struct err err = {0};
		rc = capture_slot_ready(c, slot) ? 0 : make_ready(c, slot, &err);
		if (rc && rc != -ECANCELED)
			log_warn("nothing is saved to slot %u: %s", slot, err.text);
	}
	atomic_store(&arena_head(c->arena)->pinning, 0);
	return NULL;
}

/* The trainer's signals belong to the trainer's threads. */
static int start_thread(struct capture *c)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = -pthread_create(&c->slots.thread, NULL, make_others, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	c->slots.started = !rc;
	if (!rc)
		pthread_setname_np(c->slots.thread, "ckpt-pin");
	return rc;
}

int capture_slots_start(struct capture *c, struct err *err)
{
	if (!any_gpu(c)) {
		int rc = 0;
		for (uint32_t slot = 0; slot < c->arena->nslots && !rc; slot++)
			rc = make_ready(c, slot, err);
		return rc;
	}
	/* The daemon then puts nothing off. */
	atomic_store(&arena_head(c->arena)->pinning, 1);
	int rc = make_ready(c, first_slot(c), err);
	if (!rc && start_thread(c))
		(void)make_others(c);
	return rc;
}

void capture_slots_stop(struct capture *c)
{
	atomic_store(&c->slots.stop, true);
	if (!c->slots.started)
		return;
	arena_wake(c->arena);
	pthread_join(c->slots.thread, NULL);
	c->slots.started = false;
}

void capture_slots_detach(struct capture *c, struct capture_device *d)
{
	for (uint32_t slot = 0; slot < ARENA_SLOTS_MAX; slot++)
		if (d->slots & 1u << slot)
			d->ops->arena_detach(d->dev, arena_slot_data(c->arena, slot));
	d->slots = 0;
}
