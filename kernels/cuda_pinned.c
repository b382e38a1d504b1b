#include "cuda_pinned.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <pthread.h>

enum { PINNED_MAX = 64 };

/* Of the process, as pinned memory is: two sessions, or two devices of one, know nothing of each other. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned {
	void *base;
	size_t size;
	unsigned users; /* devices; 0: the entry is free */
	bool stuck;     /* a device that hangs had it */
} all[PINNED_MAX];

static struct pinned *find(const void *base)
{
	for (size_t i = 0; i < PINNED_MAX; i++)
		if (all[i].users && all[i].base == base)
			return &all[i];
	return NULL;
}

static struct pinned *unused(void)
{
	for (size_t i = 0; i < PINNED_MAX; i++)
		if (!all[i].users)
			return &all[i];
	return NULL;
}

int cuda_pin(struct device *dev, void *base, size_t size, struct err *err)
{
	LOCK_SCOPE(&lock);
	struct pinned *p = find(base);
	if (p && p->size != size)
		return err_set(err, -EINVAL, "GPU %d: the arena is pinned with %zu bytes, not %zu", dev->ordinal,
			       p->size, size);
	if (p) {
		p->users++;
		return 0;
	}
	p = unused();
	if (!p)
		return err_set(err, -E2BIG, "GPU %d: this process has pinned %d arenas", dev->ordinal, PINNED_MAX);
	int rc = cuda_check(dev, dev->rt->host_register(dev->rt, base, size), "pinning the arena", err);
	if (rc == 0)
		*p = (struct pinned){.base = base, .size = size, .users = 1};
	return rc;
}

void cuda_unpin(struct device *dev, void *base, bool idle)
{
	struct err err;
	LOCK_SCOPE(&lock);
	struct pinned *p = find(base);
	if (!p)
		return;
	p->stuck |= !idle;
	if (--p->users)
		return;
	if (p->stuck)
		log_warn("GPU %d: the arena stays pinned: a GPU that hangs may touch it yet", dev->ordinal);
	else if (cuda_check(dev, dev->rt->host_unregister(dev->rt, base), "unpinning the arena", &err) < 0)
		log_warn("%s", err.text);
}
