/* The arithmetic behind the estimate. It follows the way of the bytes: the ranks copy and digest, each on a thread of its own; the daemon
 * digests while it writes, so that the slower of the two counts; a few small files and directories are fsynced one after another; a
 * restore reads and checks while the arena's pages are made, and each rank copies and checks what is its own. */
#include "operate/bench.h"

#include "base/bytes.h"
#include "base/clock.h"

enum { FILES_AT_ONCE = 4 }; /* as ckptd writes them */

static double least(double a, double b)
{
	return a < b ? a : b;
}

/* So many threads at once: no faster than all processors together. */
static double rate_of(const struct bench_figures *f, enum bench_rate one, enum bench_rate all, unsigned threads)
{
	return least(f->rates[one] * threads, f->rates[all]);
}

static double seconds(uint64_t ns)
{
	return (double)ns / CLOCK_NS_PER_S;
}

/* The fsyncs of the data files are in the rate of writing. What else a commit waits for: sidecars, four at a time, both manifests,
 * the directory twice and those above it, and the link. */
static double commit_seconds(const struct bench_figures *f, unsigned ranks)
{
	uint64_t files = div_up(ranks, FILES_AT_ONCE) + 2;
	return (double)files * seconds(f->latencies[BENCH_FSYNC].median_ns) +
	       4 * seconds(f->latencies[BENCH_FSYNC_DIR].median_ns) + seconds(f->latencies[BENCH_LINK].median_ns);
}

void bench_estimate(const struct bench_figures *f, uint64_t state, unsigned ranks, struct bench_estimate *out)
{
	double bytes = (double)state;
	double touch = f->rates[BENCH_TOUCH_HUGE] > 0 ? f->rates[BENCH_TOUCH_HUGE] : f->rates[BENCH_TOUCH_ORDINARY];
	double checked = f->rates[BENCH_DIGEST_ALL], read = least(f->rates[BENCH_READ], checked);
	double in_place = bytes / rate_of(f, BENCH_COPY_ONE, BENCH_COPY_ALL, ranks) +
			  bytes / rate_of(f, BENCH_DIGEST_ONE, BENCH_DIGEST_ALL, ranks);
	out->captured = in_place;
	out->durable = out->captured + bytes / least(f->rates[BENCH_WRITE], checked) + commit_seconds(f, ranks);
	out->verified = out->durable + bytes / read;
	out->restored = bytes / least(read, touch) + in_place;
}
