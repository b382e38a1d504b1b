/* The store's half of ckpt bench, in a directory of its own, with a disk that fails. */
#include "operate/bench.h"

#include "base/failpoint.h"
#include "base/mapping.h"
#include "scratch.h"
#include "store/disk/disk.h"

#include <criterion/criterion.h>
#include <sys/mman.h>

enum { SIZE = 20 << 20 }; /* three chunks, the last one short */

static char path[SCRATCH_MAX];
static struct disk *disk;
static int root;
static struct bench_memory memory;
static struct bench_figures figures;
static struct err err;

static void setup(void)
{
	scratch_new(path);
	memory.size = DISK_CHUNK * DISK_DEPTH;
	memory.arena = mmap(NULL, memory.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(memory.arena != MAP_FAILED);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	bench_memory_free(&memory);
	disk_free(disk);
	scratch_remove(path);
}

TestSuite(bench_store, .init = setup, .fini = teardown);

static int count(void *arg, const char *name)
{
	(void)name;
	++*(int *)arg;
	return 0;
}

static int names(void)
{
	int n = 0;
	cr_assert_eq(disk_list(disk, root, count, &n), 0);
	return n;
}

static int run(const char *spec)
{
	struct progress progress = {.verb = "written"};
	figures = (struct bench_figures){0};
	cr_assert_eq(failpoint_arm(spec, &err), 0, "%s", err.text);
	err.text[0] = 0;
	int rc = bench_store(disk, root, SIZE, &memory, &progress, &figures, &err);
	failpoint_arm(NULL, NULL);
	cr_expect_eq(names(), 0, "%s: %d names are left", spec, names());
	return rc;
}

Test(bench_store, all_is_measured_and_nothing_is_left)
{
	cr_assert_eq(run(""), 0, "%s", err.text);
	cr_expect_eq(figures.moved, SIZE);
	cr_expect_gt(figures.rates[BENCH_WRITE], 0);
	cr_expect_gt(figures.rates[BENCH_READ], 0);
	for (int i = 0; i < BENCH_LATENCIES; i++) {
		cr_expect_gt(figures.latencies[i].median_ns, 0, "%d", i);
		cr_expect_geq(figures.latencies[i].worst_ns, figures.latencies[i].median_ns, "%d", i);
	}
}

Test(bench_store, a_slow_disk_is_seen)
{
	cr_assert_eq(run("disk.fsync=delay:30"), 0, "%s", err.text);
	cr_expect_geq(figures.latencies[BENCH_FSYNC].median_ns, 30000000);
	cr_expect_geq(figures.latencies[BENCH_FSYNC_DIR].median_ns, 30000000);
	cr_expect_lt(figures.rates[BENCH_WRITE], SIZE / 0.03, "the fsync counts");
}

Test(bench_store, without_hard_links_the_rest_is_measured)
{
	cr_assert_eq(run("disk.link=error:EPERM"), 0, "%s", err.text);
	cr_expect_eq(figures.latencies[BENCH_LINK].median_ns, 0);
	cr_expect_gt(figures.latencies[BENCH_FSYNC_DIR].median_ns, 0);
}

Test(bench_store, what_fails_is_said_and_nothing_is_left)
{
	static const struct {
		const char *spec, *says;
	} cases[] = {
		{"disk.open=error:EROFS@1", "create a file of the store: Read-only file system"},
		{"disk.allocate=error:ENOSPC", "allocate a file of the store: No space left on device"},
		{"disk.write=error:ENOSPC@2", "write a file of the store: No space left on device"},
		{"disk.fsync=error:EIO@1", "fsync a file of the store: Input/output error"},
		{"disk.open=error:EACCES@2", "open a file of the store: Permission denied"},
		{"disk.read=error:EIO@2", "read a file of the store: Input/output error"},
		{"disk.fsync=error:EIO@2", "fsync a file of the store: Input/output error"},
		{"disk.link=error:EIO@1", "link a file of the store: Input/output error"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_lt(run(cases[i].spec), 0, "%s", cases[i].spec);
		cr_expect(strstr(err.text, cases[i].says), "%s: %s", cases[i].spec, err.text);
	}
}
