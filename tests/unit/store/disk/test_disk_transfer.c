#include "store/disk_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(disk_transfer, .init = disk_setup, .fini = disk_teardown);

static void round_trip(const char *name, unsigned flags, uint8_t *p, uint8_t *back, size_t len)
{
	int file = create(name, flags);
	size_t window = align_up(len, DISK_ALIGN);
	cr_assert_eq(transfer(DISK_WRITE, file, p, 0, window), (int64_t)window);
	cr_assert_eq(do_file(DISK_TRUNCATE, file, len), 0);
	disk_close_file(d, file);
	expect_contents(name, p, len);
	memset(back, 0, window);
	file = disk_open_at(d, root, name, DISK_RDONLY | flags);
	cr_assert_geq(file, 0);
	cr_assert_eq(transfer(DISK_READ, file, back, 0, window), (int64_t)len, "%s", name);
	cr_assert_eq(memcmp(p, back, len), 0, "%s", name);
	disk_close_file(d, file);
}

static const size_t lengths[] = {
	1, 4095, 4096, 4097, 12288, DISK_CHUNK - 1, DISK_CHUNK, DISK_CHUNK + 1, 3 * DISK_CHUNK + 5000};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

Test(disk_transfer, whole_files_of_all_sizes_come_back)
{
	AUTO_FREE uint8_t *p = pattern(4 * DISK_CHUNK, 1);
	AUTO_FREE uint8_t *back = pattern(4 * DISK_CHUNK, 2);
	for (int i = 0; i < LENGTHS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "buffered%d", i);
		round_trip(name, 0, p, back, lengths[i]);
		snprintf(name, sizeof(name), "direct%d", i);
		round_trip(name, DISK_DIRECT, p, back, lengths[i]);
	}
}

Test(disk_transfer, reads_beyond_the_end_are_short)
{
	AUTO_FREE uint8_t *p = pattern(65536, 1);
	int file = create("a", 0);
	cr_expect_eq(transfer(DISK_WRITE, file, p, 0, 10000), 10000);
	disk_close_file(d, file);
	file = disk_open_at(d, root, "a", DISK_RDONLY);
	cr_expect_eq(transfer(DISK_READ, file, p, 0, 65536), 10000);
	cr_expect_eq(transfer(DISK_READ, file, p, 8192, 4096), 1808);
	cr_expect_eq(transfer(DISK_READ, file, p + 1, 9999, 77), 1);
	cr_expect_eq(transfer(DISK_READ, file, p, 10000, 4096), 0);
	cr_expect_eq(transfer(DISK_READ, file, p, 1 << 20, 4096), 0);
	cr_expect_eq(transfer(DISK_READ, file, p, 0, 0), 0);
	disk_close_file(d, file);
}

Test(disk_transfer, misaligned_direct_io_is_an_error)
{
	AUTO_FREE uint8_t *p = pattern(8192, 1);
	int file = create("a", DISK_DIRECT);
	int64_t rc = transfer(DISK_WRITE, file, p + 1, 0, 4096);
	cr_expect(rc == -EINVAL || rc == 4096, "%ld", (long)rc); /* 4096: the file system has no O_DIRECT */
	disk_close_file(d, file);
}

Test(disk_transfer, short_transfers_go_on_inside)
{
	static const char *const cuts[] = {"1", "100", "4096", "5000", "1000000"};
	AUTO_FREE uint8_t *p = pattern(2 * DISK_CHUNK, 1);
	AUTO_FREE uint8_t *back = pattern(2 * DISK_CHUNK, 2);
	for (int i = 0; i < 5; i++) {
		char spec[128], name[32];
		snprintf(spec, sizeof(spec), "disk.write=short:%s,disk.read=short:%s", cuts[i], cuts[i]);
		arm(spec);
		snprintf(name, sizeof(name), "aligned%d", i);
		round_trip(name, DISK_DIRECT, p, back, DISK_CHUNK + 9000);
		snprintf(name, sizeof(name), "odd%d", i);
		int file = create(name, 0);
		cr_expect_eq(transfer(DISK_WRITE, file, p + 3, 0, 70001), 70001);
		disk_close_file(d, file);
		file = disk_open_at(d, root, name, DISK_RDONLY);
		cr_expect_eq(transfer(DISK_READ, file, back + 5, 7, 80000), 69994);
		cr_expect_eq(memcmp(back + 5, p + 10, 69994), 0);
		disk_close_file(d, file);
	}
	arm("");
}

Test(disk_transfer, the_first_error_of_a_transfer_is_its_result)
{
	AUTO_FREE uint8_t *p = pattern(4096, 1);
	int file = create("a", 0);
	void *nowhere = mmap(NULL, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cr_expect_eq(transfer(DISK_WRITE, file, nowhere, 0, 64 << 20), -EFAULT);
	cr_expect_eq(transfer(DISK_WRITE, file, p, 0, 4096), 4096, "the context works on");
	munmap(nowhere, 64 << 20);
	disk_close_file(d, file);
}

Test(disk_transfer, registered_memory_is_used_and_given_back)
{
	size_t len = 24 << 20;
	int fd = memfd_create("arena", MFD_CLOEXEC);
	cr_assert_eq(ftruncate(fd, (off_t)len), 0);
	uint8_t *arena = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(arena, MAP_FAILED);
	close(fd);
	AUTO_FREE uint8_t *p = pattern(len, 1);
	AUTO_FREE uint8_t *back = pattern(len, 2);
	memcpy(arena, p, len);
	int token = disk_register(d, arena, len);
	if (token == -ENOTSUP)
		cr_skip_test("no registered buffers here: %s", err_name(token));
	cr_assert_geq(token, 0, "%s", err_name(token));
	cr_expect_eq(disk_register(d, arena + 4096, 4096), -EINVAL, "a part of it");
	round_trip("announced", DISK_DIRECT, arena, back, len);
	cr_expect_eq(disk_pin(d, token, len + 1), -EINVAL, "more than was announced");
	int rc = disk_pin(d, token, len);
	if (rc == -ENOMEM)
		cr_skip_test("the memlock limit is below %zu bytes", len);
	cr_assert_eq(rc, 0, "%s", err_name(rc));
	round_trip("registered", DISK_DIRECT, arena, back, len - 4096 - 17);
	int file = create("middle", DISK_DIRECT);
	cr_expect_eq(transfer(DISK_WRITE, file, arena + 8192, 0, len - 8192), (int64_t)len - 8192);
	disk_close_file(d, file);
	expect_contents("middle", p + 8192, len - 8192);
	disk_unregister(d, token);
	round_trip("unregistered", DISK_DIRECT, arena, back, len);
	cr_expect_eq(disk_register(d, arena, len), token, "its place is free again");
	munmap(arena, len);
}

Test(disk_transfer, a_failed_registration_leaves_the_memory_usable)
{
	AUTO_FREE uint8_t *p = pattern(DISK_CHUNK, 1);
	AUTO_FREE uint8_t *back = pattern(DISK_CHUNK, 2);
	arm("disk.register=error:ENOMEM");
	cr_expect_eq(disk_register(d, p, DISK_CHUNK), -ENOMEM);
	arm("");
	cr_expect_eq(disk_register(d, p, 0), -EINVAL);
	void *nowhere = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int token = disk_register(d, nowhere, 8192);
	cr_expect_lt(disk_pin(d, token, 8192), 0);
	disk_unregister(d, token);
	munmap(nowhere, 8192);
	disk_unregister(d, -1);
	disk_unregister(d, 5);
	round_trip("a", DISK_DIRECT, p, back, DISK_CHUNK);
}

Test(disk_transfer, a_buffer_is_cut_at_the_end_of_its_entry)
{
	/* Only the arithmetic is looked at. */
	uint64_t unit = DISK_UNIT;
	struct disk fake = {
		.memory = {[3] = {.base = 1ull << 40, .size = 3 * unit + 4096, .first = 7, .count = 4, .pinned = 4}}};
	uint64_t len = DISK_CHUNK;
	cr_expect_eq(buffers_find(&fake, (void *)(1ull << 40), &len), 7);
	cr_expect_eq(len, DISK_CHUNK);
	cr_expect_eq(buffers_find(&fake, (void *)((1ull << 40) + unit - 4096), &len), 7);
	cr_expect_eq(len, 4096);
	len = DISK_CHUNK;
	cr_expect_eq(buffers_find(&fake, (void *)((1ull << 40) + 3 * unit), &len), 10);
	cr_expect_eq(len, 4096);
	cr_expect_eq(buffers_find(&fake, (void *)((1ull << 40) + 3 * unit + 4096), &len), -1);
	cr_expect_eq(buffers_find(&fake, (void *)((1ull << 40) - 1), &len), -1);
	fake.memory[3].pinned = 3;
	cr_expect_eq(buffers_find(&fake, (void *)((1ull << 40) + 3 * unit), &len), -1, "not pinned yet");
}

/* ---- O_DIRECT refused */

Test(disk_transfer, where_direct_io_is_refused_the_page_cache_serves)
{
	struct disk *proc;
	int dir;
	char buf[64] = "";
	cr_assert_eq(disk_new("/proc/self", &proc, &dir, NULL), 0);
	int file = disk_open_at(proc, dir, "cmdline", DISK_RDONLY | DISK_DIRECT);
	cr_assert_geq(file, 0, "%s", err_name(file));
	struct disk_op op = {.kind = DISK_READ, .file = file, .buf = buf, .len = 8};
	cr_expect_eq(disk_do(proc, &op), 8);
	cr_expect_neq(buf[0], 0);
	disk_close_file(proc, file);
	disk_free(proc);
}

Test(disk_transfer, a_refused_direct_create_takes_only_what_it_has_made)
{
	struct disk_op op = {.kind = DISK_OPEN, .dir = root, .name = "a", .flags = DISK_CREATE | DISK_DIRECT};
	struct chunk c = {.op = &op};
	cr_expect(op_completed(d, &c, -EINVAL), "tried again");
	cr_expect(c.plain_open);
	scratch_write(path, "a", "", 0);
	int empty = openat(root, "a", O_WRONLY | O_CLOEXEC);
	cr_expect_not(op_completed(d, &c, empty));
	cr_expect_eq(op.result, empty);
	scratch_write(path, "b", "x", 1);
	cr_expect_not(op_completed(d, &c, openat(root, "b", O_WRONLY | O_CLOEXEC)));
	cr_expect_eq(op.result, -EEXIST);
	cr_expect_not(op_completed(d, &c, -EINVAL), "only once");
	cr_expect_eq(op.result, -EINVAL);
	close(empty);
}

/* ---- retries */

Test(disk_transfer, interrupted_operations_are_repeated_where_that_is_safe)
{
	struct disk_op sync = {.kind = DISK_FSYNC}, link = {.kind = DISK_LINK};
	struct chunk a = {.op = &sync}, b = {.op = &link}, busy = {.op = &link};
	cr_expect(op_completed(d, &a, -EINTR));
	cr_expect_not(op_completed(d, &b, -EINTR), "it may have happened");
	cr_expect_eq(link.result, -EINTR);
	int tries = 0;
	while (op_completed(d, &busy, -EAGAIN))
		tries++;
	cr_expect_eq(tries, DISK_RETRIES);
	cr_expect_eq(link.result, -EAGAIN);
}

Test(disk_transfer, a_write_that_gains_nothing_ends)
{
	struct disk_op op = {.kind = DISK_WRITE, .len = 8192};
	struct chunk c = {.op = &op, .len = 8192};
	int tries = 0;
	while (op_completed(d, &c, 0))
		tries++;
	cr_expect_eq(tries, DISK_RETRIES);
	cr_expect_eq(op.result, -EIO);
}
