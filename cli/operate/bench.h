/* What ckpt bench measures: bench.c (the command), bench_memory.c (pages, copies, digests), bench_store.c (the store's file system),
 * bench_estimate.c (what a checkpoint of a given size takes at these figures). */
#ifndef CKPT_CLI_BENCH_H
#define CKPT_CLI_BENCH_H

#include "frame/progress.h"

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct disk;

/* Bytes per second. "one" and "all": threads, of which there are as many as processors. */
enum bench_rate {
	BENCH_WRITE = 0,
	BENCH_READ,
	BENCH_COPY_ONE,
	BENCH_COPY_ALL,
	BENCH_DIGEST_ONE,
	BENCH_DIGEST_ALL,
	BENCH_TOUCH_HUGE,
	BENCH_TOUCH_ORDINARY,
	BENCH_RATES
};

enum bench_latency { BENCH_FSYNC = 0, BENCH_LINK, BENCH_FSYNC_DIR, BENCH_LATENCIES };

struct bench_figures {
	double rates[BENCH_RATES]; /* 0: not there, or not measured */
	struct bench_times {
		uint64_t median_ns, worst_ns; /* 0: not there */
	} latencies[BENCH_LATENCIES];
	uint64_t moved; /* bytes written, and read again: less than asked for when time was up */
	unsigned cores;
	bool direct;
};

/* Memory for both parts: like an arena. */
struct bench_memory {
	uint8_t *arena;
	uint64_t size; /* a multiple of HUGE_PAGE, at least what the disk has in flight */
};

/* Measures the memory; what it made is kept in *memory for bench_store, and released by bench_memory_free in any case. */
int bench_memory(struct bench_memory *memory, struct bench_figures *figures, struct err *err);
void bench_memory_free(struct bench_memory *memory);

/* Writes `size` bytes into a file of the root, reads them again, and times small files. The names are those of temporary files (litter.h),
 * and are removed again whatever happens. -ECANCELED: interrupted. */
int bench_store(struct disk *disk, int root, uint64_t size, const struct bench_memory *memory,
		struct progress *progress, struct bench_figures *figures, struct err *err);

/* Seconds for a state of so many bytes on this node, held by so many ranks. */
struct bench_estimate {
	double captured; /* copied into the arena, with digests */
	double durable;  /* from the begin of the save */
	double verified; /* likewise: durable and read back */
	double restored; /* from storage to the ranks, into a new arena */
};
void bench_estimate(const struct bench_figures *figures, uint64_t state, unsigned ranks, struct bench_estimate *out);

#endif
