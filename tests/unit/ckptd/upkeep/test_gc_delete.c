#include "upkeep/gc_delete.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[SCRATCH_MAX], dir[SCRATCH_MAX + 16];
static struct disk *disk;
static int root, ended;
static struct trash_file *files;
static struct sweep s;
static uint64_t ns_per_gib;

static bool there(const char *name)
{
	char file[SCRATCH_MAX + 64];
	snprintf(file, sizeof(file), "%s/%s", dir, name);
	return access(file, F_OK) == 0;
}

static uint64_t pace(void *arg)
{
	(void)arg;
	return ns_per_gib;
}

static void on_done(struct sweep *sweep)
{
	(void)sweep;
	ended++;
}

static void setup(void)
{
	struct err err = {{0}};
	size_t n;
	scratch_new(path);
	snprintf(dir, sizeof(dir), "%s/.trash-x", path);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	mkdir(dir, 0755);
	scratch_write(dir, NAME_MANIFEST, "m", 1);
	scratch_write(dir, "a", "aa", 2);
	scratch_write(dir, "b", "bb", 2);
	int handle = disk_open_at(disk, root, ".trash-x", DISK_DIR);
	cr_assert_eq(trash_files(disk, handle, &files, &n), 0);
	cr_assert_eq(n, 3);
	disk_close_file(disk, handle);
	ended = 0;
	ns_per_gib = 0;
	s = (struct sweep){.disk = disk,
			   .job_dir = root,
			   .name = ".trash-x",
			   .files = files,
			   .nfiles = n,
			   .pace = pace,
			   .done = on_done};
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	free(files);
	disk_free(disk);
	scratch_remove(path);
}

TestSuite(sweep, .init = setup, .fini = teardown);

/* Until it has ended, or waits. */
static void go_on(void)
{
	while (!ended && s.state != SWEEP_PAUSE)
		disk_poll(disk, clock_deadline(CLOCK_NS_PER_S));
}

static void arm(const char *spec)
{
	struct err err;
	cr_assert_eq(failpoint_arm(spec, &err), 0, "%s", err.text);
}

Test(sweep, deletes_all_of_it_and_ends_once)
{
	sweep_start(&s);
	go_on();
	cr_assert_eq(ended, 1);
	cr_assert_eq(s.rc, 0);
	cr_assert_eq(access(dir, F_OK), -1);
}

Test(sweep, what_somebody_else_has_swept_is_no_error)
{
	s.name = ".trash-gone";
	sweep_start(&s);
	go_on();
	cr_assert_eq(s.rc, 0);
	cr_assert_eq(ended, 1);
	char file[SCRATCH_MAX + 64];
	snprintf(file, sizeof(file), "%s/a", dir);
	unlink(file);
	s.name = ".trash-x";
	ended = 0;
	sweep_start(&s);
	go_on();
	cr_assert_eq(s.rc, 0);
	cr_assert_eq(access(dir, F_OK), -1);
}

Test(sweep, the_manifest_goes_first_and_an_error_ends_it)
{
	arm("gc.manifest=error:EIO");
	sweep_start(&s);
	go_on();
	cr_assert_eq(s.rc, -EIO);
	cr_assert(!there(NAME_MANIFEST) && there("a") && there("b"));
	cr_assert_eq(disk_pending(disk), 0);
}

Test(sweep, an_error_at_a_file_leaves_the_others)
{
	arm("disk.unlink=error:EIO@2");
	sweep_start(&s);
	go_on();
	cr_assert_eq(s.rc, -EIO);
	cr_assert(there("a") || there("b"));
	arm("");
	ended = 0;
	s.rc = 0;
	s.at = 0;
	sweep_start(&s);
	go_on();
	cr_assert_eq(s.rc, 0, "a later sweep deletes the rest");
	cr_assert_eq(access(dir, F_OK), -1);
}

Test(sweep, what_was_not_listed_is_left)
{
	scratch_write(dir, "later", "x", 1);
	sweep_start(&s);
	go_on();
	cr_assert_eq(s.rc, -ENOTEMPTY);
	cr_assert(there("later") && !there("a"));
}

/* Each file is paid for before the next one goes. */
Test(sweep, pauses_after_what_was_large)
{
	ns_per_gib = 100 * CLOCK_NS_PER_MS;
	for (size_t i = 0; i < s.nfiles; i++)
		files[i].bytes = 1 << 30;
	uint64_t began = clock_now();
	sweep_start(&s);
	go_on();
	cr_assert_eq(s.state, SWEEP_PAUSE);
	while (!ended) {
		sweep_tick(&s);
		disk_poll(disk, clock_deadline(CLOCK_NS_PER_MS));
	}
	cr_assert_geq(clock_now() - began, 150 * CLOCK_NS_PER_MS, "two pauses, each less the credit");
	cr_assert_eq(s.rc, 0);
	cr_assert_geq(s.freed, 2ull << 30);
}

Test(sweep, stops_in_a_pause_and_leaves_the_rest)
{
	ns_per_gib = 1000 * CLOCK_NS_PER_S;
	for (size_t i = 0; i < s.nfiles; i++)
		files[i].bytes = 1 << 30;
	sweep_start(&s);
	go_on();
	cr_assert_eq(s.state, SWEEP_PAUSE);
	sweep_stop(&s);
	go_on();
	cr_assert_eq(ended, 1);
	cr_assert_eq(s.rc, 0);
	cr_assert_eq(access(dir, F_OK), 0);
	cr_assert(!there(NAME_MANIFEST));
}
