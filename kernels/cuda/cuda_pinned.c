#include "cuda_pinned.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <pthread.h>

enum { PINNED_MAX = 64, STUCK_MAX = 8 };

/* Of the process, as pinned memory is: two sessions, or two devices of one, know nothing of each other. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned {
	void *base; /* NULL: the entry is free */
	size_t size;
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

/* Nobody uses it. The device is entered. */
static void let_go(struct device *dev, struct pinned *p)
{
	struct err err;
	if (p->users || p->nstuck || p->for_good)
		return;
	if (cuda_check(dev, dev->rt->host_unregister(dev->rt, p->base), "unpinning the arena", &err) < 0)
		log_warn("%s", err.text);
	*p = (struct pinned){0};
}

static void let_go_of_all(struct device *dev)
{
	for (size_t i = 0; i < PINNED_MAX; i++) {
		if (!all[i].base || all[i].users)
			continue;
		ask_stuck(&all[i], NULL);
		let_go(dev, &all[i]);
	}
}

/* ---- what is in use ---------------------------------------------------------------------------------------------- */

static int pin(struct device *dev, void *base, size_t size, struct err *err)
{
	struct pinned *p = find(NULL);
	if (!p)
		return err_set(err, -E2BIG, "GPU %d: this process has pinned %d arenas", dev->ordinal, PINNED_MAX);
	int rc = cuda_check(dev, dev->rt->host_register(dev->rt, base, size), "pinning the arena", err);
	if (rc == 0)
		*p = (struct pinned){.base = base, .size = size, .users = 1};
	return rc;
}

int cuda_pin(struct device *dev, void *base, size_t size, struct err *err)
{
	LOCK_SCOPE(&lock);
	let_go_of_all(dev);
	struct pinned *p = find(base);
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

bool cuda_is_pinned(const void *at, size_t n)
{
	const char *from = at;
	LOCK_SCOPE(&lock);
	for (size_t i = 0; i < PINNED_MAX; i++) {
		const char *base = all[i].base;
		if (base && all[i].users && from >= base && n <= all[i].size &&
		    (size_t)(from - base) <= all[i].size - n)
			return true;
	}
	return false;
}

void cuda_pinned_forget(struct device *dev)
{
	LOCK_SCOPE(&lock);
	for (size_t i = 0; i < PINNED_MAX; i++) {
		if (!all[i].base)
			continue;
		ask_stuck(&all[i], dev);
		let_go(dev, &all[i]);
	}
}
