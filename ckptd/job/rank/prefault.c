#include "job/rank/prefault.h"

#include "arena/room.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/room.h"
#include "job/job.h"
#include "job/jobs.h"
#include "runtime/room.h"
#include "store/disk/disk.h"

#include <stdio.h>
#include <stdlib.h>

struct prefault {
	struct work work;
	struct prefault *next; /* of daemon.jobs.prefaults */
	struct jobs *jobs;
	struct memory *mem;
	struct prefaulted there;
	uint64_t filled;
	int rc; /* of filling: 1 goes on */
	bool ran, more, pinning;
};

static bool wants_huge(const struct prefault *p)
{
	return p->jobs->runtime->config.huge_pages != HUGE_PAGES_NEVER;
}

static void run(struct work *work)
{
	struct prefault *p = list_entry(work, struct prefault, work);
	p->ran = true;
	if (p->mem->ready)
		p->more = memory_prefault(p->mem, wants_huge(p), &p->there);
	else
		p->rc = memory_fill(p->mem, &p->filled);
}

static void say_unpinned(struct memory *mem, int rc)
{
	mem->unpinned = rc;
	log_info("job %.*s: the arena of rank %u is not registered for I/O (%s): writes cost more processor time",
		 NAME_JOB_MAX - 1, mem->head->job, mem->table->reg.rank, err_name(rc));
}

static void say_pages(const struct prefault *p)
{
	const struct memory *mem = p->mem;
	char size[16], huge[16];
	bytes_human(size, sizeof(size), mem->size);
	const char *job = mem->head->job;
	if (mem->reserved)
		log_info("job %.*s: the arena of rank %u has %s in huge pages of the kernel's pool", NAME_JOB_MAX - 1,
			 job, mem->table->reg.rank, size);
	else if (mem->huge_bytes)
		log_info("job %.*s: the arena of rank %u has %s of %s in transparent huge pages", NAME_JOB_MAX - 1, job,
			 mem->table->reg.rank, bytes_human(huge, sizeof(huge), mem->huge_bytes), size);
	else
		log_info("job %.*s: the arena of rank %u has %s in ordinary pages", NAME_JOB_MAX - 1, job,
			 mem->table->reg.rank, size);
	if (wants_huge(p) && mem->huge_bytes != mem->size && !mem->reserved)
		log_debug("huge pages write faster: vm.nr_hugepages reserves them; without that the kernel (6.1 or "
			  "later) makes "
			  "them where memory is not scattered");
}

static void pin(struct prefault *p)
{
	int rc = p->pinning ? disk_pin(p->mem->disk, p->mem->token, p->there.bytes) : 0;
	if (!rc)
		return;
	p->pinning = false;
	say_unpinned(p->mem, rc);
}

static bool announce(struct jobs *jobs, struct memory *mem)
{
	if (!jobs->storage->disk)
		return false;
	mem->disk = jobs->storage->disk;
	mem->token = disk_register(jobs->storage->disk, mem->base, mem->size);
	if (mem->token < 0)
		say_unpinned(mem, mem->token);
	return mem->token >= 0;
}

/* The reservation held, but the daemon may not have so much of the pool (a limit of its cgroup or cpuset). */
static bool fall_back(struct prefault *p)
{
	struct err err = {{0}};
	char job[NAME_JOB_MAX];
	snprintf(job, sizeof(job), "%s", p->mem->head->job);
	log_info("job %s: no huge pages of the pool for the arena of rank %u: %s", job, p->mem->table->reg.rank,
		 err_name(p->rc));
	p->mem->failed = memory_fall_back(p->mem, job, &err);
	if (p->mem->failed)
		log_warn("job %s: the arena of rank %u: %s", job, p->mem->table->reg.rank, err.text);
	return !p->mem->failed;
}

/* False: this arena comes to nothing. */
static bool filled(struct prefault *p)
{
	if (p->rc > 0)
		return true;
	if (p->rc < 0 && !fall_back(p))
		return false;
	p->mem->ready = true;
	p->pinning = announce(p->jobs, p->mem);
	return true;
}

/* Ranks with state on GPUs pin what is settled. */
static void tell_settled(const struct prefault *p)
{
	atomic_store(&p->mem->head->settled, p->more ? p->there.bytes : p->mem->size);
	memory_wake(p->mem);
}

/* True: there is more to do. */
static bool advance(struct prefault *p)
{
	if (!p->mem->ready)
		return filled(p);
	pin(p);
	p->mem->huge_bytes = p->there.huge;
	tell_settled(p);
	if (!p->more) {
		p->mem->settled = true;
		say_pages(p);
	}
	return p->more;
}

static void prefault_free(struct prefault *p)
{
	memory_put(p->mem);
	free(p);
}

/* Of any job: all share the processors. */
static bool must_wait(const struct jobs *jobs)
{
	uint64_t now = clock_now();
	list_for(it, &jobs->list)
		if (recoveries_return(&list_entry(it, struct job, link)->recovery_log, now))
			return true;
	return false;
}

/* The rank does not go on before it is pinned. */
static bool is_pinned_next(const struct prefault *p)
{
	return atomic_load(&p->mem->head->pinning) != 0;
}

/* At the end of the queue: digests go first. What is not ready is waited for. */
static void go_on(struct prefault *p)
{
	p->ran = p->more = false;
	if (p->mem->ready && must_wait(p->jobs) && !is_pinned_next(p)) {
		p->next = p->jobs->prefaults;
		p->jobs->prefaults = p;
	} else {
		pool_submit(p->jobs->runtime->pool, &p->work);
	}
}

/* No other reference: the job is gone. */
static bool wanted(const struct prefault *p)
{
	return p->mem->refs > 1;
}

static void done(struct work *work)
{
	struct prefault *p = list_entry(work, struct prefault, work);
	if (p->ran /* else the daemon ends */ && wanted(p) && advance(p))
		go_on(p);
	else
		prefault_free(p);
}

static struct prefault *take_waiting(struct jobs *jobs)
{
	struct prefault *p = jobs->prefaults;
	jobs->prefaults = NULL;
	return p;
}

void prefaults_tick(struct jobs *jobs)
{
	for (struct prefault *next, *p = take_waiting(jobs); p; p = next) {
		next = p->next;
		if (wanted(p))
			go_on(p);
		else
			prefault_free(p);
	}
}

void prefaults_free(struct jobs *jobs)
{
	for (struct prefault *next, *p = take_waiting(jobs); p; p = next) {
		next = p->next;
		prefault_free(p);
	}
}

void prefault_start(struct jobs *jobs, struct memory *mem)
{
	struct prefault *p = calloc(1, sizeof(*p));
	if (!p) {
		mem->failed = mem->ready ? 0 : -ENOMEM;
		return;
	}
	*p = (struct prefault){.work = {.run = run, .done = done}, .jobs = jobs, .mem = memory_get(mem)};
	if (mem->ready)
		p->pinning = announce(jobs, mem);
	go_on(p);
}
