#include "checkpoint/file/file_writer.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "ckptd/job_maker.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { BYTES = 3 * DISK_ALIGN };

static char path[SCRATCH_MAX];
static struct disk *disk;
static int root;
static uint8_t *data;

static void setup(void)
{
	struct err err = {{0}};
	scratch_new(path);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	data = aligned_alloc(DISK_ALIGN, BYTES);
	cr_assert(data);
	for (int i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 31 + i / 256);
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	free(data);
	disk_free(disk);
	scratch_remove(path);
}

TestSuite(writer, .init = setup, .fini = teardown);

static void on_done(struct writer *w)
{
	++*(int *)w->arg;
}

/* The result; done must come exactly once. */
static int write_file(const char *name, unsigned flags, uint64_t first, uint64_t second, uint64_t size)
{
	int done = 0;
	uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
	struct writer w = {.disk = disk, .dir = root, .flags = flags, .size = size, .done = on_done, .arg = &done};
	w.extents[0] = (struct writer_extent){data, 0, first};
	w.extents[1] = (struct writer_extent){data + first, first, second};
	snprintf(w.name, sizeof(w.name), "%s", name);
	writer_start(&w);
	while ((!done || disk_pending(disk)) && clock_now() < deadline)
		disk_poll(disk, deadline);
	cr_assert_eq(done, 1);
	return w.rc;
}

static void expect_file(const char *name, size_t len)
{
	size_t size;
	AUTO_FREE void *have = scratch_read(path, name, &size);
	cr_assert_eq(size, len);
	cr_assert_eq(memcmp(have, data, len), 0);
}

Test(writer, two_extents_become_one_file)
{
	cr_assert_eq(write_file("f", 0, 1000, 500, 1500), 0);
	expect_file("f", 1500);
}

Test(writer, what_direct_io_wrote_beyond_the_end_is_cut)
{
	cr_assert_eq(write_file("f", DISK_DIRECT, DISK_ALIGN, 2 * DISK_ALIGN, BYTES - 100), 0);
	expect_file("f", BYTES - 100);
}

Test(writer, an_empty_file_is_a_file)
{
	cr_assert_eq(write_file("f", 0, 0, 0, 0), 0);
	expect_file("f", 0);
}

Test(writer, a_file_that_is_there_is_not_touched)
{
	scratch_write(path, "f", "old", 3);
	cr_assert_eq(write_file("f", 0, 100, 0, 100), -EEXIST);
	cr_assert_eq(scratch_size(path, "f"), 3u);
}

Test(writer, the_first_error_is_told_and_the_file_closed)
{
	static const char *const points[] = {"disk.open",          "disk.write",       "disk.fsync",
					     "disk.truncate",      "disk.write.after", "disk.fsync.after",
					     "disk.truncate.after"};
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		char spec[64], name[16];
		struct err err = {{0}};
		unsigned before = open_descriptors();
		snprintf(spec, sizeof(spec), "%s=error:ENOSPC@1", points[i]);
		snprintf(name, sizeof(name), "f%zu", i);
		cr_assert_eq(failpoint_arm(spec, &err), 0, "%s", err.text);
		cr_assert_eq(write_file(name, DISK_DIRECT, DISK_ALIGN, DISK_ALIGN, 2 * DISK_ALIGN), -ENOSPC, "%s",
			     spec);
		failpoint_arm("", &err);
		cr_assert_eq(open_descriptors(), before, "%s", spec);
	}
}

/* ---- under a limit ----------------------------------------------------------------------------------------------- */

static uint64_t rate, job_rate;
static struct bucket bucket = {.rate = &job_rate};
static struct throttle throttle;

static void moved(struct writer *w)
{
	++*(int *)w->arg;
}

static void ended(struct writer *w)
{
	(void)w; /* seen by its state */
}

static struct writer limited_writer(int *parts)
{
	throttle_init(&throttle, &rate);
	struct writer w = {.disk = disk, .dir = root, .size = BYTES, .done = ended, .arg = parts, .moved = moved};
	w.throttle = &throttle;
	w.bucket = &bucket;
	w.extents[0] = (struct writer_extent){data, 0, DISK_ALIGN};
	w.extents[1] = (struct writer_extent){data + DISK_ALIGN, DISK_ALIGN, BYTES - DISK_ALIGN};
	snprintf(w.name, sizeof(w.name), "f");
	return w;
}

static void run(struct writer *w)
{
	uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
	while (w->state != WRITER_DONE && clock_now() < deadline) {
		disk_poll(disk, clock_deadline(CLOCK_NS_PER_MS));
		throttle_pump(&throttle);
	}
	cr_assert_eq(w->state, WRITER_DONE);
	while (disk_pending(disk))
		disk_poll(disk, deadline);
}

Test(writer, under_a_limit_a_file_is_written_in_pieces)
{
	int parts = 0;
	rate = 1 << 20;
	struct writer w = limited_writer(&parts);
	job_rate = 64 << 10; /* the lower of the two counts: blocks of 4 KiB */
	writer_start(&w);
	run(&w);
	job_rate = 0;
	cr_assert_eq(w.rc, 0);
	cr_assert_eq(parts, 3);
	expect_file("f", BYTES);
}

Test(writer, what_waits_under_a_limit_can_be_cancelled)
{
	int parts = 0;
	rate = 1;
	struct writer w = limited_writer(&parts);
	throttle.node.paid_ns = clock_deadline(3600 * CLOCK_NS_PER_S);
	writer_start(&w);
	uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
	while (!throttle_waiting(&throttle) && clock_now() < deadline)
		disk_poll(disk, clock_deadline(CLOCK_NS_PER_MS));
	writer_cancel(&w, -ETIMEDOUT);
	run(&w);
	cr_assert_eq(w.rc, -ETIMEDOUT);
}

Test(writer, limits_that_are_opened_let_everything_go)
{
	int parts = 0;
	rate = 1;
	struct writer w = limited_writer(&parts);
	throttle.node.paid_ns = clock_deadline(3600 * CLOCK_NS_PER_S);
	writer_start(&w);
	uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
	while (!throttle_waiting(&throttle) && clock_now() < deadline)
		disk_poll(disk, clock_deadline(CLOCK_NS_PER_MS));
	throttle_open(&throttle);
	run(&w);
	cr_assert_eq(w.rc, 0);
	expect_file("f", BYTES);
}

/* ---- of many places ------------------------------------------------------------------------------------------------- */

enum { MORE = 2 * WRITER_OPS + 3, EACH = 1001 };

static struct writer_extent more[MORE];

/* The first two extents, and more after them: all of them make `data`. */
static struct writer scattered_writer(int *parts)
{
	struct writer w = limited_writer(parts);
	uint64_t at = BYTES - (uint64_t)MORE * EACH;
	_Static_assert(MORE * EACH < BYTES, "they fit");
	w.extents[0] = (struct writer_extent){data, 0, 10};
	w.extents[1] = (struct writer_extent){data + 10, 10, at - 10};
	for (uint32_t i = 0; i < MORE; i++, at += EACH)
		more[i] = (struct writer_extent){data + at, at, EACH};
	w.more = more;
	w.nmore = MORE;
	return w;
}

Test(writer, data_of_many_places_become_one_file)
{
	int parts = 0;
	rate = job_rate = 0;
	struct writer w = scattered_writer(&parts);
	writer_start(&w);
	run(&w);
	cr_assert_eq(w.rc, 0);
	cr_assert_eq(parts, 0);
	expect_file("f", BYTES);
}

Test(writer, data_of_many_places_keep_to_a_limit)
{
	int parts = 0;
	rate = 1 << 20;
	job_rate = 0;
	struct writer w = scattered_writer(&parts);
	writer_start(&w);
	run(&w);
	cr_assert_eq(w.rc, 0);
	cr_assert_eq(parts, 2 + MORE);
	expect_file("f", BYTES);
}

Test(writer, after_an_error_no_more_of_it_is_written)
{
	struct err err = {{0}};
	int parts = 0;
	rate = job_rate = 0;
	struct writer w = scattered_writer(&parts);
	cr_assert_eq(failpoint_arm("disk.write=error:ENOSPC@2", &err), 0, "%s", err.text);
	writer_start(&w);
	run(&w);
	failpoint_arm("", &err);
	cr_assert_eq(w.rc, -ENOSPC);
	cr_expect_lt(w.extent, (uint32_t)MORE);
}

/* ---- as it arrives --------------------------------------------------------------------------------------------------- */

static uint64_t there; /* of the second extent */

static uint64_t ready(const struct writer *w, const struct writer_extent *e)
{
	return e == &w->extents[1] ? min_u64(there, e->len) : e->len;
}

/* All of the file but its first block is still to come. */
static struct writer arriving_writer(int *parts)
{
	struct writer w = limited_writer(parts);
	rate = job_rate = there = 0;
	w.ready = ready;
	w.flags = DISK_DIRECT;
	return w;
}

static void run_until_starved(struct writer *w)
{
	uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
	while (!writer_starved(w) && clock_now() < deadline)
		disk_poll(disk, clock_deadline(CLOCK_NS_PER_MS));
	cr_assert(writer_starved(w));
	cr_assert_eq(disk_pending(disk), 0u);
}

Test(writer, what_arrives_is_written_as_far_as_it_is_there)
{
	int parts = 0;
	struct writer w = arriving_writer(&parts);
	writer_start(&w);
	run_until_starved(&w);
	cr_expect_eq(parts, 1);
	there = DISK_ALIGN - 1; /* no block of it is whole */
	writer_more(&w);
	cr_expect(writer_starved(&w));
	memset(data + DISK_ALIGN, 0x5a, DISK_ALIGN); /* it is read when it is there, not before */
	there = DISK_ALIGN + 1;
	writer_more(&w);
	run_until_starved(&w);
	cr_expect_eq(parts, 2);
	there = BYTES;
	writer_more(&w);
	run(&w);
	cr_assert_eq(w.rc, 0);
	cr_expect_eq(parts, 3);
	expect_file("f", BYTES);
}

Test(writer, what_arrives_keeps_to_a_limit)
{
	int parts = 0;
	struct writer w = arriving_writer(&parts);
	rate = 1 << 20;
	job_rate = 64 << 10;
	writer_start(&w);
	run_until_starved(&w);
	there = BYTES;
	writer_more(&w);
	run(&w);
	cr_assert_eq(w.rc, 0);
	cr_expect_eq(parts, 3);
	expect_file("f", BYTES);
}

Test(writer, what_does_not_arrive_can_be_cancelled)
{
	unsigned before = open_descriptors();
	for (enum writer_state state = WRITER_OPEN; state <= WRITER_WRITE; state++) {
		int parts = 0;
		struct writer w = arriving_writer(&parts);
		uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
		snprintf(w.name, sizeof(w.name), "f%d", (int)state);
		writer_start(&w);
		while (w.state != state && clock_now() < deadline)
			disk_poll(disk, clock_deadline(CLOCK_NS_PER_MS));
		if (state == WRITER_WRITE)
			run_until_starved(&w);
		writer_cancel(&w, -EBADMSG);
		run(&w);
		cr_expect_eq(w.rc, -EBADMSG, "in state %d", (int)state);
		cr_expect_not(writer_starved(&w));
		cr_expect_eq(open_descriptors(), before, "in state %d", (int)state);
	}
}
