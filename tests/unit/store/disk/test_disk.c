#include "store/disk_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(disk, .init = disk_setup, .fini = disk_teardown);

Test(disk, names)
{
	cr_expect_eq(do_name(DISK_MKDIR, "sub"), 0);
	cr_expect_eq(do_name(DISK_MKDIR, "sub"), -EEXIST);
	int sub = disk_open_at(d, root, "sub", DISK_DIR);
	cr_assert_geq(sub, 0);
	close(create("a", 0));
	cr_expect_eq(disk_open_at(d, root, "a", DISK_CREATE), -EEXIST);
	cr_expect_eq(disk_open_at(d, root, "none", DISK_RDONLY), -ENOENT);
	cr_expect_eq(disk_open_at(d, root, "a", DISK_DIR), -ENOTDIR);
	struct disk_op link = {.kind = DISK_LINK, .dir = root, .name = "a", .dir2 = sub, .name2 = "b"};
	cr_expect_eq(disk_do(d, &link), 0);
	cr_expect_eq(disk_do(d, &link), -EEXIST);
	struct disk_stat st;
	cr_expect_eq(disk_stat_at(d, sub, "b", &st), 0);
	cr_expect_eq(st.links, 2);
	cr_expect_not(st.is_dir);
	cr_expect_eq(do_name(DISK_RMDIR, "sub"), -ENOTEMPTY);
	struct disk_op back = {.kind = DISK_RENAME, .dir = sub, .name = "b", .dir2 = root, .name2 = "c"};
	cr_expect_eq(disk_do(d, &back), 0);
	cr_expect(exists("c"));
	cr_expect_eq(do_name(DISK_UNLINK, "c"), 0);
	cr_expect_eq(do_name(DISK_UNLINK, "c"), -ENOENT);
	cr_expect_eq(do_file(DISK_FSYNC, root, 0), 0);
	cr_expect_eq(disk_close_file(d, sub), 0);
	cr_expect_eq(disk_close_file(d, sub), -EBADF);
	cr_expect_eq(do_name(DISK_RMDIR, "sub"), 0);
	cr_expect_not(exists("sub"));
}

Test(disk, created_files_are_write_only_and_opened_ones_read_only)
{
	AUTO_FREE uint8_t *p = pattern(4096, 1);
	int file = create("a", 0);
	cr_expect_eq(transfer(DISK_WRITE, file, p, 0, 100), 100);
	cr_expect_eq(transfer(DISK_READ, file, p, 0, 100), -EBADF);
	cr_expect_eq(do_file(DISK_FSYNC, file, 0), 0);
	disk_close_file(d, file);
	file = disk_open_at(d, root, "a", DISK_RDONLY);
	cr_expect_eq(transfer(DISK_WRITE, file, p, 0, 100), -EBADF);
	disk_close_file(d, file);
}

Test(disk, truncate_cuts_and_extends)
{
	AUTO_FREE uint8_t *p = pattern(8192, 1);
	int file = create("a", 0);
	cr_expect_eq(transfer(DISK_WRITE, file, p, 0, 8192), 8192);
	cr_expect_eq(do_file(DISK_TRUNCATE, file, 5000), 0);
	expect_contents("a", p, 5000);
	cr_expect_eq(do_file(DISK_TRUNCATE, file, 6000), 0);
	memset(p + 5000, 0, 1000);
	expect_contents("a", p, 6000);
	disk_close_file(d, file);
	cr_expect_eq(do_file(DISK_TRUNCATE, file, 0), -EBADF);
}

Test(disk, allocate_extends_and_keeps_what_is_there)
{
	AUTO_FREE uint8_t *p = pattern(16384, 1);
	int file = create("a", 0);
	cr_expect_eq(transfer(DISK_WRITE, file, p, 0, 5000), 5000);
	struct disk_op op = {.kind = DISK_ALLOCATE, .file = file, .len = 16384};
	int rc = disk_do(d, &op);
	if (rc == -EOPNOTSUPP)
		cr_skip_test("the file system cannot allocate ahead");
	cr_expect_eq(rc, 0, "%s", err_name(rc));
	memset(p + 5000, 0, 16384 - 5000);
	expect_contents("a", p, 16384);
	op.len = 4096;
	cr_expect_eq(disk_do(d, &op), 0);
	expect_contents("a", p, 16384);
	disk_close_file(d, file);
}

Test(disk, an_unknown_kind_is_refused)
{
	cr_expect_eq(do_name((enum disk_kind)77, "a"), -EINVAL);
	cr_expect_eq(do_name((enum disk_kind)0, "a"), -EINVAL);
}

Test(disk, nothing_leads_out_of_the_store)
{
	char name[SCRATCH_MAX + 16];
	snprintf(name, sizeof(name), "%s/link", path);
	cr_assert_eq(symlink("/etc/passwd", name), 0);
	snprintf(name, sizeof(name), "%s/pipe", path);
	cr_assert_eq(mkfifo(name, 0644), 0);
	snprintf(name, sizeof(name), "%s/away", path);
	cr_assert_eq(symlink("/etc", name), 0);
	cr_expect_eq(do_name(DISK_MKDIR, "dir"), 0);
	cr_expect_eq(disk_open_at(d, root, "link", DISK_RDONLY), -ELOOP);
	cr_expect_eq(disk_open_at(d, root, "pipe", DISK_RDONLY), -EINVAL);
	cr_expect_eq(disk_open_at(d, root, "dir", DISK_RDONLY), -EISDIR);
	cr_expect_lt(disk_open_at(d, root, "away", DISK_DIR), 0);
}

/* ---- queues */

struct order {
	int n;
	struct disk_op *ops[256];
};

static void note_order(struct disk_op *op)
{
	struct order *order = op->arg;
	order->ops[order->n++] = op;
}

static void drain(void)
{
	while (disk_pending(d))
		disk_poll(d, clock_deadline(CLOCK_NS_PER_S));
}

Test(disk, a_small_transfer_does_not_wait_for_a_large_one)
{
	enum { BIG = 160 << 20 };
	AUTO_FREE uint8_t *p = pattern(DISK_CHUNK, 1);
	/* Many times the same pages: only the queue matters here. */
	int fd = memfd_create("big", MFD_CLOEXEC), file = create("big", 0), other = create("small", 0);
	cr_assert_eq(ftruncate(fd, BIG), 0);
	uint8_t *big = mmap(NULL, BIG, PROT_READ, MAP_SHARED, fd, 0);
	struct order order = {0};
	struct disk_op large = {
		.kind = DISK_WRITE, .file = file, .buf = big, .len = BIG, .done = note_order, .arg = &order};
	struct disk_op small = {
		.kind = DISK_WRITE, .file = other, .buf = p, .len = 4096, .done = note_order, .arg = &order};
	disk_submit(d, &large);
	disk_submit(d, &small);
	drain();
	cr_assert_eq(order.n, 2);
	cr_expect_eq(order.ops[0], &small);
	cr_expect_eq(large.result, BIG);
	munmap(big, BIG);
	close(fd);
	disk_close_file(d, file);
	disk_close_file(d, other);
}

Test(disk, more_operations_than_the_ring_has_entries)
{
	enum { MANY = 200 };
	struct order order = {0};
	static struct disk_op ops[MANY];
	static char names[MANY][16];
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "d%d", i);
		ops[i] = (struct disk_op){
			.kind = DISK_MKDIR, .dir = root, .name = names[i], .done = note_order, .arg = &order};
		disk_submit(d, &ops[i]);
	}
	cr_expect_eq(disk_pending(d), MANY);
	drain();
	cr_expect_eq(order.n, MANY);
	for (int i = 0; i < MANY; i++)
		cr_expect_eq(ops[i].result, 0);
	cr_expect(exists("d199"));
}

Test(disk, the_event_descriptor_tells_of_all_completions)
{
	struct order order = {0};
	struct pollfd p = {.fd = disk_event_fd(d), .events = POLLIN};
	struct disk_op make = {.kind = DISK_MKDIR, .dir = root, .name = "a", .done = note_order, .arg = &order};
	struct disk_op bad = {.kind = (enum disk_kind)99, .done = note_order, .arg = &order};
	cr_expect_eq(poll(&p, 1, 0), 0, "quiet at first");
	disk_submit(d, &make);
	cr_expect_eq(poll(&p, 1, 5000), 1);
	cr_expect_eq(disk_poll(d, 0), 1);
	disk_submit(d, &bad);
	cr_expect_eq(order.n, 1, "never from inside submit");
	cr_expect_eq(poll(&p, 1, 5000), 1, "also for what never reached the kernel");
	cr_expect_eq(disk_poll(d, 0), 1);
	cr_expect_eq(poll(&p, 1, 0), 0, "and quiet again");
	cr_expect_eq(disk_poll(d, clock_deadline(CLOCK_NS_PER_S)), 0, "at once when nothing is pending");
}

static void submit_next(struct disk_op *op)
{
	int *left = op->arg;
	if (--*left > 0)
		disk_submit(d, op);
}

static void nest(struct disk_op *op)
{
	cr_expect_eq(op->result, 0);
	*(int *)op->arg = do_name(DISK_MKDIR, "inner");
}

Test(disk, done_may_submit_again_and_wait)
{
	int left = 50, inner = -1;
	struct disk_op again = {.kind = DISK_FSYNC, .file = root, .done = submit_next, .arg = &left};
	struct disk_op outer = {.kind = DISK_MKDIR, .dir = root, .name = "outer", .done = nest, .arg = &inner};
	disk_submit(d, &again);
	disk_submit(d, &outer);
	drain();
	cr_expect_eq(left, 0);
	cr_expect_eq(inner, 0);
	cr_expect(exists("inner"));
}

Test(disk, freeing_waits_for_what_is_pending)
{
	struct disk *other;
	int dir;
	struct order order = {0};
	static struct disk_op ops[100];
	AUTO_FREE uint8_t *p = pattern(DISK_CHUNK, 1);
	cr_assert_eq(disk_new(path, &other, &dir, NULL), 0);
	int file = disk_open_at(other, dir, "a", DISK_CREATE);
	for (int i = 0; i < 100; i++) {
		ops[i] = (struct disk_op){.kind = DISK_WRITE,
					  .file = file,
					  .buf = p,
					  .offset = (uint64_t)i * 65536,
					  .len = 65536,
					  .done = note_order,
					  .arg = &order};
		disk_submit(other, &ops[i]);
	}
	disk_free(other);
	cr_expect_eq(order.n, 100);
	close(file);
}

/* ---- failpoints */

static int run_kind(enum disk_kind kind, int file, void *buf)
{
	struct disk_op op = {.kind = kind,
			     .dir = root,
			     .dir2 = root,
			     .name = "x",
			     .name2 = "y",
			     .file = file,
			     .buf = buf,
			     .len = 4096,
			     .flags = DISK_CREATE};
	return disk_do(d, &op);
}

Test(disk, a_failpoint_stands_before_and_after_every_kind)
{
	static const char *const names[] = {
		[DISK_MKDIR] = "mkdir", [DISK_OPEN] = "open",     [DISK_WRITE] = "write",
		[DISK_READ] = "read",   [DISK_FSYNC] = "fsync",   [DISK_TRUNCATE] = "truncate",
		[DISK_LINK] = "link",   [DISK_RENAME] = "rename", [DISK_UNLINK] = "unlink",
		[DISK_RMDIR] = "rmdir", [DISK_CLOSE] = "close",   [DISK_ALLOCATE] = "allocate",
	};
	AUTO_FREE uint8_t *p = pattern(4096, 1);
	for (int kind = DISK_MKDIR; kind <= DISK_CLOSE; kind++) {
		int file = openat(root, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		char spec[128];
		snprintf(spec, sizeof(spec), "disk.%s=error:EIO", names[kind]);
		arm(spec);
		cr_expect_eq(run_kind((enum disk_kind)kind, file, p), -EIO, "%s", spec);
		cr_expect_not(exists("x"), "%s: nothing was done", spec);
		snprintf(spec, sizeof(spec), "disk.%s.after=error:ENOSPC", names[kind]);
		arm(spec);
		cr_expect_eq(run_kind((enum disk_kind)kind, file, p), -ENOSPC, "%s", spec);
		arm("");
		run_kind(DISK_RMDIR, file, p);
		run_kind(DISK_UNLINK, file, p);
		if (kind != DISK_CLOSE)
			close(file);
	}
}
