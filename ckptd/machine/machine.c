#include "machine/machine.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "config/setting.h"
#include "machine/disk_probe.h"
#include "runtime/room.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEER_ASKS = 3 }; /* so many may a node leave without an answer until it is forgotten */

/* Without an answer it is looked again so often whether that is stuck by now. */
#define LOOK_NS CLOCK_NS_PER_S

/* What is asked of the machine by a thread of its own. */
struct errand {
	struct work work;
	struct pool *pool;
	struct machine *machine;
	bool busy;
};

struct machine {
	const struct config *config;
	struct checkup checkup;
	struct ailment ailments[CHECKUP_MAX];
	unsigned n;
	uint64_t next_ns, look_ns;
	char sysfs[256];
	struct gpus *gpus;
	struct errand disk, devices;
	/* the threads' */
	struct disk_reading disk_is;
	struct memory_errors memory_is;
	int memory_rc;
	struct gpus_reading gpus_is;
};

/* ---- the threads ----------------------------------------------------------------------------------------------- */

static void read_disk(struct work *work)
{
	struct machine *m = list_entry(work, struct errand, work)->machine;
	m->disk_is.rc = disk_probe(m->config->store, m->config->node, &m->disk_is.ns);
}

static void read_devices(struct work *work)
{
	struct machine *m = list_entry(work, struct errand, work)->machine;
	m->memory_rc = memory_errors_read(m->sysfs, &m->memory_is);
	m->gpus_is.rc = gpus_read(m->gpus, m->gpus_is.gpu, &m->gpus_is.n);
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static bool has(const struct ailment *all, unsigned n, const struct ailment *one)
{
	for (unsigned i = 0; i < n; i++)
		if (all[i].kind == one->kind && !strcmp(all[i].text, one->text))
			return true;
	return false;
}

/* A number in it grows: that is news, too; but of what is over only the kind is said. */
static bool has_kind(const struct ailment *all, unsigned n, enum ailment_kind kind)
{
	for (unsigned i = 0; i < n; i++)
		if (all[i].kind == kind)
			return true;
	return false;
}

static void say(const struct machine *m, const struct ailment *before, unsigned nbefore)
{
	for (unsigned i = 0; i < m->n; i++)
		if (!has_kind(before, nbefore, m->ailments[i].kind) ||
		    (ailment_is_hard(m->ailments[i].kind) && m->ailments[i].kind != AILMENT_DISK_DEAD &&
		     !has(before, nbefore, &m->ailments[i])))
			log_warn("this node: %s", m->ailments[i].text);
	for (unsigned i = 0; i < nbefore; i++)
		if (!has_kind(m->ailments, m->n, before[i].kind))
			log_info("this node, no longer so: %s", before[i].text);
}

static void look(struct machine *m, uint64_t now)
{
	struct ailment before[CHECKUP_MAX];
	unsigned n = m->n;
	memcpy(before, m->ailments, n * sizeof(*before));
	m->checkup.clock_limit_ns = m->config->clock_limit_ms * CLOCK_NS_PER_MS;
	m->n = checkup_find(&m->checkup, now, m->ailments);
	m->look_ns = now + LOOK_NS;
	say(m, before, n);
}

static void disk_done(struct work *work)
{
	struct errand *e = list_entry(work, struct errand, work);
	e->busy = false;
	checkup_take_disk(&e->machine->checkup, &e->machine->disk_is);
	look(e->machine, clock_now());
}

static void devices_done(struct work *work)
{
	struct errand *e = list_entry(work, struct errand, work);
	struct machine *m = e->machine;
	e->busy = false;
	checkup_take_devices(&m->checkup, clock_now(), m->memory_rc, &m->memory_is, &m->gpus_is);
	look(m, clock_now());
}

static void submit(struct errand *e)
{
	e->busy = true;
	pool_submit(e->pool, &e->work);
}

static void ask(struct machine *m, uint64_t now)
{
	uint64_t stale = PEER_ASKS * m->config->check_interval_ms * CLOCK_NS_PER_MS;
	peer_check_forget(&m->checkup.peers, now - min_u64(now, stale));
	m->next_ns = now + m->config->check_interval_ms * CLOCK_NS_PER_MS;
	if (m->config->store && !m->disk.busy) {
		checkup_asks_disk(&m->checkup, now);
		submit(&m->disk);
	}
	if (!m->devices.busy) {
		checkup_asks_devices(&m->checkup, now);
		submit(&m->devices);
	}
}

void machine_tick(struct machine *m, uint64_t now)
{
	if (!m)
		return;
	pool_poll(m->disk.pool);
	pool_poll(m->devices.pool);
	if (m->config->check_interval_ms && now >= m->next_ns)
		ask(m, now);
	if ((m->disk.busy || m->devices.busy) && now >= m->look_ns)
		look(m, now);
}

void machine_first(struct machine *m, uint64_t deadline)
{
	uint64_t now;
	machine_tick(m, clock_now());
	while ((m->disk.busy || m->devices.busy) && (now = clock_now()) < deadline) {
		struct pollfd fds[] = {{.fd = pool_event_fd(m->disk.pool), .events = POLLIN},
				       {.fd = pool_event_fd(m->devices.pool), .events = POLLIN}};
		poll(fds, 2, (int)((deadline - now) / CLOCK_NS_PER_MS) + 1);
		pool_poll(m->disk.pool);
		pool_poll(m->devices.pool);
	}
}

void machine_hear_peer(struct machine *m, const char *name, uint64_t trip_ns, int64_t ahead_ns)
{
	uint64_t now = clock_now();
	if (!m)
		return;
	peer_check_take(&m->checkup.peers, now, name, trip_ns, ahead_ns);
	look(m, now);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void init(struct errand *e, struct machine *m, void (*run)(struct work *work), void (*done)(struct work *work))
{
	*e = (struct errand){.work = {.run = run, .done = done}, .machine = m};
}

int machine_new(const struct config *config, struct machine **out, struct err *err)
{
	struct machine *m = calloc(1, sizeof(*m));
	const char *sysfs = getenv("CKPT_SYSFS");
	*out = m;
	if (!m || !(m->gpus = gpus_open())) {
		free(m);
		*out = NULL;
		return err_set(err, -ENOMEM, "no memory to look at this machine");
	}
	m->config = config;
	snprintf(m->sysfs, sizeof(m->sysfs), "%s", sysfs && *sysfs ? sysfs : "/sys");
	init(&m->disk, m, read_disk, disk_done);
	init(&m->devices, m, read_devices, devices_done);
	int rc = pool_new(1, &m->disk.pool, err);
	return rc ? rc : pool_new(1, &m->devices.pool, err);
}

void machine_free(struct machine *m)
{
	if (!m || m->disk.busy || m->devices.busy)
		return;
	pool_free(m->disk.pool);
	pool_free(m->devices.pool);
	gpus_close(m->gpus);
	free(m);
}

/* ---- what is asked of it --------------------------------------------------------------------------------------- */

const struct checkup *machine_checkup(const struct machine *m)
{
	return m ? &m->checkup : NULL;
}

const struct ailment *machine_ailments(const struct machine *m, unsigned *n)
{
	*n = m ? m->n : 0;
	return m ? m->ailments : NULL;
}

const char *machine_unfit(const struct machine *m)
{
	return m && m->n && ailment_is_hard(m->ailments[0].kind) ? m->ailments[0].text : "";
}
