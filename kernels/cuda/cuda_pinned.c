#include "cuda_pinned.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <pthread.h>

enum { PINNED_MAX = 256, STUCK_MAX = 8 };

/* Of the process, as pinned memory is: two sessions, or two devices of one, know nothing of each other. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned {
	void *base;                      /* NULL: the entry is free */
	size_t size, most;               /* most: bytes of each of its registrations but the last */
	bool coming;                     /* a thread is about to pin it, without the lock: that may take seconds */
	unsigned users;                  /* devices; 0: it is pinned for those alone that may touch it yet */
	struct device *stuck[STUCK_MAX]; /* that did not come to their end when they let it go */
	unsigned nstuck;
	bool for_good; /* so did one of which nobody can ask any more */
} all[PINNED_MAX];

static struct pinned *find(const void *base)
{
	for (size_t i = 0; i < PINNED_MAX; i++)
		if (all[i].base == base)
			return &all[i];
	return NULL;
}

/* ---- what stays pinned ------------------------------------------------------------------------------------------- */

static void add_stuck(struct pinned *p, struct device *dev)
{
	for (unsigned i = 0; i < p->nstuck; i++)
		if (p->stuck[i] == dev)
			return;
	if (p->nstuck == STUCK_MAX)
		p->for_good = true;
	else
		p->stuck[p->nstuck++] = dev;
}

/* dev NULL: all that are stuck are asked; else it is about to be freed, and nobody can ask it again. */
static void ask_stuck(struct pinned *p, const struct device *dev)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < p->nstuck; i++) {
		bool asked = !dev || dev == p->stuck[i], idle = asked && cuda_is_idle(p->stuck[i]);
		p->for_good |= dev == p->stuck[i] && !idle;
		if (!idle && dev != p->stuck[i])
			p->stuck[kept++] = p->stuck[i];
	}
	p->nstuck = kept;
}

static void unregister(struct device *dev, char *base, size_t size, size_t most)
{
	struct err err;
	for (size_t at = 0; at < size; at += most)
		if (cuda_check(dev, dev->rt->host_unregister(dev->rt, base + at), "unpinning the arena", &err) < 0)
			log_warn("%s", err.text);
}

/* Nobody uses it. The device is entered. */
static void let_go(struct device *dev, struct pinned *p)
{
	if (p->users || p->coming || p->nstuck || p->for_good)
		return;
	unregister(dev, p->base, p->size, p->most);
	*p = (struct pinned){0};
}

static void let_go_of_all(struct device *dev)
{
	for (size_t i = 0; i < PINNED_MAX; i++) {
		if (!all[i].base || all[i].users || all[i].coming)
			continue;
		ask_stuck(&all[i], NULL);
		let_go(dev, &all[i]);
	}
}

/* ---- what is in use ---------------------------------------------------------------------------------------------- */

/* In several registrations where it is so large that the driver would refuse one. */
static int register_all(struct device *dev, char *base, size_t size, size_t most, struct err *err)
{
	for (size_t at = 0; at < size; at += most) {
		size_t n = size - at < most ? size - at : most;
		int rc = cuda_check(dev, dev->rt->host_register(dev->rt, base + at, n), "pinning the arena", err);
		if (rc < 0) {
			unregister(dev, base, at, most);
			return rc;
		}
	}
	return 0;
}

/* Something is, or was, pinned in more than one registration: hardly ever, and then every copy asks. */
static _Atomic bool several;

/* With the lock, which is not held meanwhile. */
static int pin(struct device *dev, void *base, size_t size, struct err *err)
{
	struct pinned *p = find(NULL);
	if (!p)
		return err_set(err, -E2BIG, "GPU %d: this process has pinned %d pieces of arenas", dev->ordinal,
			       PINNED_MAX);
	size_t most = dev->rt->register_max;
	*p = (struct pinned){.base = base, .size = size, .most = most, .coming = true};
	if (size > most)
		atomic_store(&several, true);
	pthread_mutex_unlock(&lock);
	int rc = register_all(dev, base, size, most, err);
	pthread_mutex_lock(&lock);
	p->coming = false;
	if (rc < 0)
		*p = (struct pinned){0};
	else
		p->users = 1;
	return rc;
}

int cuda_pin(struct device *dev, void *base, size_t size, struct err *err)
{
	LOCK_SCOPE(&lock);
	let_go_of_all(dev);
	struct pinned *p = find(base);
	if (p && p->coming)
		return err_set(err, -EBUSY, "GPU %d: another thread is pinning the arena", dev->ordinal);
	if (p && !p->users) /* what is pinned there is other memory than what stands there now */
		return err_set(err, -EEXIST,
			       "GPU %d: an arena that stood there stays pinned: a GPU that hangs may touch it yet",
			       dev->ordinal);
	if (p && p->size != size)
		return err_set(err, -EINVAL, "GPU %d: the arena is pinned with %zu bytes, not %zu", dev->ordinal,
			       p->size, size);
	if (p)
		p->users++;
	return p ? 0 : pin(dev, base, size, err);
}

void cuda_unpin(struct device *dev, void *base, bool idle)
{
	LOCK_SCOPE(&lock);
	struct pinned *p = find(base);
	if (!p || !p->users)
		return;
	if (!idle)
		add_stuck(p, dev);
	if (--p->users)
		return;
	ask_stuck(p, NULL);
	let_go(dev, p);
	if (p->base)
		log_warn("GPU %d: the arena stays pinned: a GPU that hangs may touch it yet", dev->ordinal);
}

static const struct pinned *around(const char *at)
{
	for (size_t i = 0; i < PINNED_MAX; i++) {
		const char *base = all[i].base;
		if (base && all[i].users && at >= base && (size_t)(at - base) < all[i].size)
			return &all[i];
	}
	return NULL;
}

bool cuda_is_pinned(const void *at, size_t n)
{
	LOCK_SCOPE(&lock);
	const struct pinned *p = around(at);
	return p && n <= p->size - (size_t)((const char *)at - (const char *)p->base);
}

size_t cuda_pinned_run(const void *at, size_t n)
{
	if (!atomic_load_explicit(&several, memory_order_relaxed))
		return n;
	LOCK_SCOPE(&lock);
	const struct pinned *p = around(at);
	if (!p)
		return n;
	size_t left = p->most - (size_t)((const char *)at - (const char *)p->base) % p->most;
	return n < left ? n : left;
}

void cuda_pinned_forget(struct device *dev)
{
	LOCK_SCOPE(&lock);
	for (size_t i = 0; i < PINNED_MAX; i++) {
		if (!all[i].base || all[i].coming)
			continue;
		ask_stuck(&all[i], dev);
		let_go(dev, &all[i]);
	}
}
