#include "base/clock.h"
#include "store/disk_fixture.h"

#include <errno.h>
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
	cr_expect_eq(disk_refusals(d), 1);
	char *data;
	size_t len;
	cr_expect_eq(disk_read_file(d, root, "a", 10, (void **)&data, &len, NULL), 0, "reads go on");
	free(data);
	disk_break(d, -EIO, clock_now());
	cr_expect_eq(put("b"), 0, "its time is over");
	cr_expect_eq(disk_refusals(d), 0);
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
	cr_expect_eq(full.refusals, 1);
}
