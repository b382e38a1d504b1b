#include "prefault.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon.h"
#include "memory.h"
#include "pool.h"
#include "store/disk.h"

#include <stdlib.h>

struct prefault {
	struct work work;
	struct pool *pool;
	struct memory *mem;
	uint64_t at;
	bool more, pinning;
};

static void run(struct work *work)
{
	struct prefault *p = list_entry(work, struct prefault, work);
	p->more = memory_prefault(p->mem, &p->at);
}

static void say_unpinned(const struct memory *mem, int rc)
{
	log_info("job %s: the arena of rank %u is not registered for I/O (%s): writes cost more processor time",
		 mem->head->job, mem->reg.rank, err_name(rc));
}

static void pin(struct prefault *p)
{
	int rc = p->pinning ? disk_pin(p->mem->disk, p->mem->token, p->at) : 0;
	if (!rc)
		return;
	p->pinning = false;
	say_unpinned(p->mem, rc);
}

static void done(struct work *work)
{
	struct prefault *p = list_entry(work, struct prefault, work);
	/* Else nobody but this item holds the arena any more: the job is gone. */
	if (p->mem->refs > 1)
		pin(p);
	if (p->more && p->mem->refs > 1) {
		p->more = false;
		pool_submit(p->pool, &p->work); /* at the end of the queue: digests go first */
		return;
	}
	memory_put(p->mem);
	free(p);
}

static bool announce(struct daemon *daemon, struct memory *mem)
{
	if (!daemon->disk)
		return false;
	mem->disk = daemon->disk;
	mem->token = disk_register(daemon->disk, mem->base, mem->size);
	if (mem->token < 0)
		say_unpinned(mem, mem->token);
	return mem->token >= 0;
}

void prefault_start(struct daemon *daemon, struct memory *mem)
{
	struct prefault *p = calloc(1, sizeof(*p));
	if (!p)
		return;
	*p = (struct prefault){.work = {.run = run, .done = done}, .pool = daemon->pool, .mem = memory_get(mem)};
	p->pinning = announce(daemon, mem);
	pool_submit(daemon->pool, &p->work);
}
