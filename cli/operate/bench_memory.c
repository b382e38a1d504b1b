/* What memory does here: first touch of an arena in huge and in ordinary pages, copies into it, digests of it. */
#include "operate/bench.h"

#include "base/bytes.h"
#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mapping.h"
#include "base/threads.h"
#include "format/tensor/digest.h"
#include "store/disk/disk.h"

#include <linux/memfd.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

enum {
	AT_MOST = 256 << 20, /* beyond the caches of most machines */
	AT_LEAST = DISK_CHUNK * DISK_DEPTH,
	PART = 64 << 20,  /* of first touch, as ckptd does it */
	SHARE = 1 << 20,  /* that a thread takes at a time; a multiple of LEAF_SIZE */
	MEMORY_PART = 16, /* at most this part of the memory */
	THREADS = 64,
};
#define LONG_ENOUGH (200 * CLOCK_NS_PER_MS)

static uint64_t arena_size(void)
{
	struct sysinfo info;
	uint64_t all = sysinfo(&info) ? AT_MOST : (uint64_t)info.totalram * info.mem_unit;
	uint64_t part = min_u64(all, cgroup_memory_limit()) / MEMORY_PART;
	return min_u64(max_u64(part, AT_LEAST), AT_MOST) / HUGE_PAGE * HUGE_PAGE;
}

static double rate(uint64_t bytes, uint64_t ns)
{
	return (double)bytes * (double)CLOCK_NS_PER_S / (double)max_u64(ns, 1);
}

/* ---- first touch ------------------------------------------------------------------------------------------------- */

static int make_arena(struct bench_memory *m, uint64_t size, struct err *err)
{
	AUTO_CLOSE int fd = memfd_create("ckpt-bench", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return err_set(err, -errno, "cannot make a memory file like an arena: %s", err_name(errno));
	void *base = mapping_shared(fd, size, PROT_READ | PROT_WRITE);
	if (base == MAP_FAILED)
		return err_set(err, -errno, "cannot map a memory file like an arena: %s", err_name(errno));
	*m = (struct bench_memory){.arena = base, .size = size};
	return 0;
}

static int touch_ordinary(struct bench_memory *m, double *out, struct err *err)
{
	uint64_t begin = clock_now();
	madvise(m->arena, m->size, MADV_NOHUGEPAGE);
	for (uint64_t at = 0; at < m->size; at += PART)
		if (madvise(m->arena + at, min_u64(PART, m->size - at), MADV_POPULATE_WRITE) < 0)
			return err_set(err, -errno, "no memory for something like an arena: %s", err_name(errno));
	*out = rate(m->size, clock_now() - begin);
	return 0;
}

static bool touch_huge(struct bench_memory *m, double *out)
{
	uint64_t begin = clock_now();
	madvise(m->arena, m->size, MADV_HUGEPAGE);
	for (uint64_t at = 0; at < m->size; at += PART)
		if (!mapping_collapse(m->arena + at, min_u64(PART, m->size - at)))
			return false;
	*out = rate(m->size, clock_now() - begin);
	return true;
}

/* One of each kind, one after the other. The one in huge pages is kept if there is one: that is what ckptd would have. */
static int touch(struct bench_memory *m, struct bench_figures *f, struct err *err)
{
	uint64_t size = arena_size();
	int rc = make_arena(m, size, err);
	if (!rc)
		rc = touch_ordinary(m, &f->rates[BENCH_TOUCH_ORDINARY], err);
	if (rc)
		return rc;
	struct bench_memory huge = {0};
	if (make_arena(&huge, size, NULL))
		return 0;
	struct bench_memory *loser = touch_huge(&huge, &f->rates[BENCH_TOUCH_HUGE]) ? m : &huge;
	bench_memory_free(loser);
	if (loser == m)
		*m = huge;
	return 0;
}

void bench_memory_free(struct bench_memory *m)
{
	if (m->arena)
		munmap(m->arena, m->size);
	*m = (struct bench_memory){0};
}

/* ---- copies and digests -------------------------------------------------------------------------------------------- */

struct shared {
	const struct bench_memory *to;
	const uint8_t *from; /* NULL: digests of `to` */
	_Atomic uint64_t next, seen;
	uint64_t until;
};

/* Until time is up, and each share at least once. */
static void take_shares(void *arg)
{
	struct shared *s = arg;
	uint64_t leaves[SHARE / LEAF_SIZE], seen = 0;
	for (;;) {
		uint64_t at = atomic_fetch_add(&s->next, SHARE);
		if (at >= s->to->size && clock_now() >= s->until)
			break;
		uint8_t *share = s->to->arena + at % s->to->size;
		if (s->from)
			memcpy(share, s->from + at % s->to->size, SHARE);
		else
			digest_leaves(share, SHARE, leaves);
		seen += SHARE;
	}
	atomic_fetch_add(&s->seen, seen);
}

static double together(unsigned threads, const struct bench_memory *to, const uint8_t *from)
{
	uint64_t begin = clock_now();
	struct shared s = {.to = to, .from = from, .until = begin + LONG_ENOUGH};
	threads_run(threads, take_shares, &s);
	return rate(s.seen, clock_now() - begin);
}

/* What cannot be compressed, so that a store that compresses shows what it does with a state. */
static void fill(uint8_t *data, uint64_t size)
{
	uint64_t x = 88172645463325252ull; /* xorshift */
	for (uint64_t at = 0; at < size; at += sizeof(x)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(data + at, &x, sizeof(x));
	}
}

int bench_memory(struct bench_memory *m, struct bench_figures *f, struct err *err)
{
	f->cores = threads_default(THREADS);
	int rc = touch(m, f, err);
	if (rc)
		return rc;
	AUTO_FREE uint8_t *state = malloc(m->size);
	if (!state)
		return err_set(err, -ENOMEM, "no memory for something like a state");
	fill(state, m->size);
	f->rates[BENCH_COPY_ONE] = together(1, m, state);
	f->rates[BENCH_COPY_ALL] = together(f->cores, m, state);
	f->rates[BENCH_DIGEST_ONE] = together(1, m, NULL);
	f->rates[BENCH_DIGEST_ALL] = together(f->cores, m, NULL);
	return 0;
}
