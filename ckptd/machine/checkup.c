#include "machine/checkup.h"

#include "base/bytes.h"
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is read ---------------------------------------------------------------------------------------------- */

void checkup_asks_disk(struct checkup *c, uint64_t now)
{
	c->disk_since_ns = now;
}

void checkup_asks_devices(struct checkup *c, uint64_t now)
{
	c->devices_since_ns = now;
}

void checkup_take_disk(struct checkup *c, const struct disk_reading *is)
{
	c->disk_since_ns = 0;
	c->disk_read = true;
	c->disk = *is;
	if (!is->rc)
		c->fast[c->nfast++ % CHECKUP_ROW] = is->ns;
	else
		c->nfast = 0;
}

static void take_memory(struct checkup *c, uint64_t now, int rc, const struct memory_errors *memory)
{
	c->memory_rc = rc;
	if (rc)
		return;
	if (memory->corrected < c->memory.corrected) /* the driver was loaded anew */
		c->nhour = 0;
	c->memory = *memory;
	c->hour[c->nhour % CHECKUP_HOUR].at_ns = now;
	c->hour[c->nhour++ % CHECKUP_HOUR].corrected = memory->corrected;
}

static bool is_narrow(const struct gpu *gpu)
{
	return gpu->width < gpu->width_max || (gpu->full && gpu->generation < gpu->generation_max);
}

static void take_gpu(struct checkup *c, unsigned i, uint64_t now)
{
	const struct gpu *gpu = &c->gpus.gpu[i];
	c->of[i].slowed = gpu->slowed ? c->of[i].slowed + 1 : 0;
	c->of[i].narrow = is_narrow(gpu) ? c->of[i].narrow + 1 : 0;
	if (gpu->xid) {
		c->of[i].xid = gpu->xid;
		c->of[i].xid_ns = now;
	}
}

void checkup_take_devices(struct checkup *c, uint64_t now, int memory_rc, const struct memory_errors *memory,
			  const struct gpus_reading *gpus)
{
	c->devices_since_ns = 0;
	c->devices_read = true;
	take_memory(c, now, memory_rc, memory);
	c->gpus = *gpus;
	for (unsigned i = 0; i < gpus->n; i++)
		take_gpu(c, i, now);
}

/* ---- what it means --------------------------------------------------------------------------------------------- */

struct findings {
	struct ailment *found;
	unsigned n;
};

__attribute__((format(printf, 3, 4))) static void add(struct findings *f, enum ailment_kind kind, const char *fmt, ...)
{
	va_list ap;
	if (f->n == CHECKUP_MAX)
		return;
	struct ailment *a = &f->found[f->n++];
	a->kind = kind;
	va_start(ap, fmt);
	vsnprintf(a->text, sizeof(a->text), fmt, ap);
	va_end(ap);
}

static bool is_stuck(uint64_t since_ns, uint64_t now)
{
	return since_ns && now - since_ns >= CHECKUP_STUCK_NS;
}

/* Since the oldest sample that is not older than an hour. */
static uint64_t corrected_of_hour(const struct checkup *c, uint64_t now)
{
	uint64_t oldest = c->memory.corrected;
	uint32_t n = c->nhour < CHECKUP_HOUR ? c->nhour : CHECKUP_HOUR;
	for (uint32_t i = 0; i < n; i++)
		if (now - c->hour[i].at_ns <= CHECKUP_HOUR_NS)
			oldest = min_u64(oldest, c->hour[i].corrected);
	return c->memory.corrected - oldest;
}

static void find_memory(const struct checkup *c, uint64_t now, struct findings *f)
{
	if (!c->devices_read || c->memory_rc)
		return;
	if (c->memory.uncorrected)
		add(f, AILMENT_MEMORY_UNCORRECTED, "memory: %lu uncorrected error%s since the kernel began to count",
		    (unsigned long)c->memory.uncorrected, c->memory.uncorrected > 1 ? "s" : "");
	uint64_t corrected = corrected_of_hour(c, now);
	if (corrected >= CHECKUP_CORRECTED)
		add(f, AILMENT_MEMORY_CORRECTED, "memory: %lu errors were corrected within an hour",
		    (unsigned long)corrected);
}

/* What a full store refuses says nothing of the disk. */
static bool is_full(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT;
}

static uint64_t fastest(const struct checkup *c)
{
	uint64_t least = UINT64_MAX;
	for (uint32_t i = 0; i < CHECKUP_ROW; i++)
		least = min_u64(least, c->fast[i]);
	return c->nfast < CHECKUP_ROW ? 0 : least;
}

static void find_disk(const struct checkup *c, uint64_t now, struct findings *f)
{
	if (is_stuck(c->disk_since_ns, now))
		add(f, AILMENT_DISK_DEAD, "the store has not taken a small file for %lu s",
		    (unsigned long)((now - c->disk_since_ns) / 1000000000));
	else if (c->disk_read && c->disk.rc && !is_full(c->disk.rc))
		add(f, AILMENT_DISK_DEAD, "the store does not take a small file: %s", err_name(c->disk.rc));
	else if (fastest(c) > CHECKUP_SLOW_NS)
		add(f, AILMENT_DISK_SLOW, "the store takes %.1f s for a small file, %d times in a row",
		    (double)fastest(c) / 1e9, CHECKUP_ROW);
}

static void find_gpu(const struct checkup *c, unsigned i, uint64_t now, struct findings *f)
{
	const struct gpu *gpu = &c->gpus.gpu[i];
	if (gpu->lost)
		add(f, AILMENT_GPU_LOST, "GPU %u (%s) is lost: the driver does not find it", i, gpu->bus_id);
	if (gpu->reset)
		add(f, AILMENT_GPU_LOST, "GPU %u (%s) must be reset before it can be used again", i, gpu->bus_id);
	if (gpu->uncorrected)
		add(f, AILMENT_GPU_ECC, "GPU %u (%s): %lu uncorrected ECC error%s since the driver was loaded", i,
		    gpu->bus_id, (unsigned long)gpu->uncorrected, gpu->uncorrected > 1 ? "s" : "");
	if (c->of[i].xid && now - c->of[i].xid_ns <= CHECKUP_HOUR_NS)
		add(f, AILMENT_GPU_XID, "GPU %u (%s): the driver has reported XID %u", i, gpu->bus_id, c->of[i].xid);
	if (c->of[i].slowed >= CHECKUP_ROW)
		add(f, AILMENT_GPU_SLOWED, "GPU %u (%s) is slowed down by heat or by its power supply", i, gpu->bus_id);
	if (c->of[i].narrow >= CHECKUP_ROW)
		add(f, AILMENT_GPU_LINK,
		    "GPU %u (%s): its PCIe link has %u lanes of generation %u, and could have %u of %u", i, gpu->bus_id,
		    gpu->width, gpu->generation, gpu->width_max, gpu->generation_max);
}

static void find_clock(const struct checkup *c, struct findings *f)
{
	struct clock_check is = peer_check_clock(&c->peers);
	uint64_t off_ns = is.ahead_ns < 0 ? -(uint64_t)is.ahead_ns : (uint64_t)is.ahead_ns;
	if (!c->clock_limit_ns || !is.n || off_ns <= is.uncertain_ns || off_ns - is.uncertain_ns <= c->clock_limit_ns)
		return;
	add(f, AILMENT_CLOCK, "the clock of this node is %.3f s %s that of %u other node%s%s", (double)off_ns / 1e9,
	    is.ahead_ns < 0 ? "behind" : "ahead of", is.n, is.n > 1 ? "s" : "", is.n > 1 ? " (median)" : "");
}

static void find_far_peers(const struct checkup *c, struct findings *f)
{
	uint64_t trip_ns, others_ns;
	for (unsigned i = 0; i < PEER_CHECK_MAX; i++)
		if (peer_check_is_far(&c->peers, i, &trip_ns, &others_ns))
			add(f, AILMENT_PEER_FAR, "a round trip to node %s takes %.1f ms, to the other nodes %.1f ms",
			    c->peers.peers[i].name, (double)trip_ns / 1e6, (double)others_ns / 1e6);
}

static void find_far(const struct checkup *c, struct findings *f)
{
	uint64_t least_ns;
	unsigned n = peer_check_far_from(&c->peers, &least_ns);
	if (n)
		add(f, AILMENT_FAR, "this node is far from all %u others it asks: a round trip takes %.1f ms at least",
		    n, (double)least_ns / 1e6);
}

static int hardest_first(const void *a, const void *b)
{
	const struct ailment *x = a, *y = b;
	return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->text, y->text);
}

unsigned checkup_find(const struct checkup *c, uint64_t now, struct ailment found[CHECKUP_MAX])
{
	struct findings f = {.found = found};
	find_memory(c, now, &f);
	find_disk(c, now, &f);
	if (is_stuck(c->devices_since_ns, now))
		add(&f, AILMENT_GPU_LOST, "the driver of the GPUs has not answered for %lu s",
		    (unsigned long)((now - c->devices_since_ns) / 1000000000));
	for (unsigned i = 0; i < c->gpus.n; i++)
		find_gpu(c, i, now, &f);
	find_clock(c, &f);
	find_far(c, &f);
	find_far_peers(c, &f);
	qsort(found, f.n, sizeof(*found), hardest_first);
	return f.n;
}
