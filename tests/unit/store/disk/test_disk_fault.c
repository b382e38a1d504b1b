#include "base/clock.h"
#include "store/disk_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

TestSuite(disk_fault, .init = disk_setup, .fini = disk_teardown);

static int put(const char *name)
{
	struct err err = {""};
	return disk_put_file(d, root, name, "x", 1, false, &err);
}

Test(disk_fault, refuses_what_writes_until_its_time_is_over)
{
	cr_assert_eq(put("a"), 0);
	disk_break(d, -ENOSPC, clock_deadline(60 * CLOCK_NS_PER_S));
	cr_expect_eq(put("b"), -ENOSPC);
	cr_expect_eq(disk_hits(d), 1);
	char *data;
	size_t len;
	cr_expect_eq(disk_read_file(d, root, "a", 10, (void **)&data, &len, NULL), 0, "reads go on");
	free(data);
	disk_break(d, -EIO, clock_now());
	cr_expect_eq(put("b"), 0, "its time is over");
	cr_expect_eq(disk_hits(d), 0);
}

Test(disk_fault, a_full_disk_can_be_synced_and_a_broken_one_cannot)
{
	struct disk_op sync = {.kind = DISK_FSYNC}, write = {.kind = DISK_WRITE}, read = {.kind = DISK_READ};
	struct disk_fault full = {.rc = -ENOSPC, .until = 10}, broken = {.rc = -EIO, .until = 10};
	cr_expect_eq(disk_fault_of(&full, &sync, 5), 0);
	cr_expect_eq(disk_fault_of(&broken, &sync, 5), -EIO);
	cr_expect_eq(disk_fault_of(&broken, &read, 5), 0);
	cr_expect_eq(disk_fault_of(&full, &write, 10), 0);
	cr_expect_eq(disk_fault_of(&full, &write, 9), -ENOSPC);
	cr_expect_eq(full.hits, 1);
}

Test(disk_fault, holds_what_is_asked_until_its_time_is_over)
{
	uint64_t from = clock_now();
	disk_hold(d, UINT64_MAX, from + 200 * CLOCK_NS_PER_MS);
	cr_expect_eq(put("a"), 0);
	cr_expect_geq(clock_now(), from + 200 * CLOCK_NS_PER_MS);
	cr_expect_gt(disk_hits(d), 0);
	disk_hold(d, UINT64_MAX, clock_now());
	cr_expect_eq(put("b"), 0);
	cr_expect_eq(disk_hits(d), 0, "its time is over");
}

Test(disk_fault, slows_each_operation_down_by_itself)
{
	uint64_t from = clock_now();
	disk_hold(d, 30 * CLOCK_NS_PER_MS, clock_deadline(60 * CLOCK_NS_PER_S));
	cr_expect_eq(put("a"), 0);
	cr_expect_geq(disk_hits(d), 5);
	cr_expect_geq(clock_now(), from + disk_hits(d) * 30 * CLOCK_NS_PER_MS);
	cr_expect_lt(clock_now(), from + 60 * CLOCK_NS_PER_S);
}

static bool ended;

static void end(struct disk_op *op)
{
	cr_expect_eq(op->result, 0);
	ended = true;
}

Test(disk_fault, what_is_held_is_done_when_the_disk_is_freed)
{
	struct disk_op make = {.kind = DISK_MKDIR, .dir = root, .name = "dir", .done = end};
	disk_hold(d, UINT64_MAX, clock_deadline(3600 * CLOCK_NS_PER_S));
	disk_submit(d, &make);
	disk_let_go(d);
	cr_expect_eq(disk_poll(d, 0), 0);
	disk_free(d);
	d = NULL;
	cr_expect(ended);
}

/* Into step-1/x or other/x, and what is there afterwards. */
static void put_in(const char *dir, const char *data, size_t len, unsigned flags, char *is)
{
	struct err err = {""};
	struct disk_op make = {.kind = DISK_MKDIR, .dir = root, .name = dir};
	cr_assert_eq(disk_do(d, &make), 0);
	int handle = disk_open_at(d, root, dir, DISK_DIR);
	int file = disk_open_at(d, handle, "x", DISK_CREATE | flags);
	cr_assert(file >= 0);
	struct disk_op write = {.kind = DISK_WRITE, .file = file, .buf = (void *)data, .len = len};
	cr_assert_eq(disk_do(d, &write), (int)len);
	cr_assert_eq(disk_fsync(d, file), 0);
	disk_close_file(d, file);
	void *read;
	size_t n;
	cr_assert_eq(disk_read_file(d, handle, "x", 1 << 20, &read, &n, &err), 0, "%s", err.text);
	cr_assert_eq(n, len);
	memcpy(is, read, n);
	free(read);
	disk_close_file(d, handle);
}

Test(disk_fault, changes_one_bit_of_one_write_to_a_checkpoint)
{
	enum { LEN = 4 * DISK_ALIGN };
	char *was = aligned_alloc(DISK_ALIGN, LEN), is[LEN];
	uint64_t at;
	memset(was, 'x', LEN);
	disk_corrupt(d, clock_deadline(60 * CLOCK_NS_PER_S));
	put_in("other", was, LEN, 0, is);
	cr_expect_eq(memcmp(was, is, LEN), 0, "that is no checkpoint");
	cr_expect_eq(disk_hits(d), 0);
	put_in("step-1", was, LEN, DISK_DIRECT, is);
	cr_expect_eq(disk_hits(d), 1);
	cr_expect(strstr(disk_hit_file(d, &at), "/step-1/x"), "%s", disk_hit_file(d, &at));
	cr_expect_eq(is[at], 'x' ^ 8);
	is[at] ^= 8;
	cr_expect_eq(memcmp(was, is, LEN), 0, "nothing else has changed, nor the caller's memory");
	put_in("step-2", was, LEN, DISK_DIRECT, is);
	cr_expect_eq(memcmp(was, is, LEN), 0, "it was once");
	free(was);
}
