#include "store/disk_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(disk_sync, .init = disk_setup, .fini = disk_teardown);

Test(disk_sync, read_file_is_bounded)
{
	AUTO_FREE void *data = NULL;
	size_t len;
	struct err err = {0};
	scratch_write(path, "a", "hello", 5);
	cr_expect_eq(disk_read_file(d, root, "a", 5, &data, &len, &err), 0, "%s", err.text);
	cr_expect_str_eq(data, "hello");
	cr_expect_eq(len, 5);
	free(steal_ptr(&data));
	cr_expect_eq(disk_read_file(d, root, "a", 4, &data, &len, &err), -EFBIG);
	cr_expect(strstr(err.text, "5") && strstr(err.text, "4"), "both sizes: %s", err.text);
	cr_expect_null(data);
	cr_expect_eq(disk_read_file(d, root, "b", 4, &data, &len, &err), -ENOENT);
}

static int count_names(void *arg, const char *name)
{
	(void)name;
	return ++*(int *)arg > 100;
}

static int name_count(void)
{
	int n = 0;
	cr_expect_eq(disk_list(d, root, count_names, &n), 0);
	return n;
}

Test(disk_sync, put_file_creates_once_and_replaces_on_request)
{
	struct err err = {0};
	cr_expect_eq(disk_put_file(d, root, "a", "one", 3, false, &err), 0, "%s", err.text);
	cr_expect_eq(disk_put_file(d, root, "a", "two", 3, false, &err), -EEXIST);
	expect_contents("a", "one", 3);
	cr_expect_eq(disk_put_file(d, root, "a", "three", 5, true, &err), 0);
	expect_contents("a", "three", 5);
	cr_expect_eq(name_count(), 1, "no temporary stays");
	scratch_write(path, ".tmp-a.0", "old", 3);
	cr_expect_eq(disk_put_file(d, root, "a", "four", 4, true, &err), 0, "that of a crash is not in the way");
	expect_contents("a", "four", 4);
	cr_expect_eq(name_count(), 2);
}

Test(disk_sync, put_file_leaves_nothing_behind_when_it_fails)
{
	static const char *const specs[] = {"disk.open=error:EIO", "disk.write=error:ENOSPC", "disk.fsync=error:EIO@1",
					    "disk.link=error:EIO", "disk.close=error:EIO"};
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct err err = {0};
		arm(specs[i]);
		cr_expect_lt(disk_put_file(d, root, "a", "one", 3, false, &err), 0, "%s", specs[i]);
		cr_expect_neq(err.text[0], 0);
		arm("");
		cr_expect_eq(name_count(), 0, "%s", specs[i]);
	}
	/* The directory's fsync fails last: the name is there, but not promised. */
	arm("disk.fsync=error:EIO@2");
	cr_expect_eq(disk_put_file(d, root, "a", "one", 3, false, NULL), -EIO);
	arm("");
	cr_expect_eq(disk_put_file(d, root, "a", "one", 3, false, NULL), -EEXIST);
}

Test(disk_sync, put_file_renames_where_there_are_no_links)
{
	arm("disk.link=error:EPERM");
	cr_expect_eq(disk_put_file(d, root, "a", "one", 3, false, NULL), 0);
	cr_expect_eq(disk_put_file(d, root, "a", "two", 3, false, NULL), -EEXIST);
	arm("");
	expect_contents("a", "one", 3);
	cr_expect_eq(name_count(), 1);
}

/* A server that is asked again, because its answer was lost, says EEXIST or ENOENT of what it has done. */
Test(disk_sync, a_lost_answer_is_no_failure)
{
	struct err err = {0};
	arm("disk.link.after=error:EEXIST");
	cr_expect_eq(disk_put_file(d, root, "a", "one", 3, false, &err), 0, "%s", err.text);
	expect_contents("a", "one", 3);
	arm("disk.rename.after=error:ENOENT");
	cr_expect_eq(disk_put_file(d, root, "a", "three", 5, true, &err), 0, "%s", err.text);
	expect_contents("a", "three", 5);
	arm("disk.link=error:EPERM,disk.rename.after=error:ENOENT");
	cr_expect_eq(disk_put_file(d, root, "b", "two", 3, false, &err), 0, "%s", err.text);
	expect_contents("b", "two", 3);
	arm("");
	cr_expect_eq(name_count(), 2, "no temporary stays");
}

Test(disk_sync, the_same_answer_about_what_was_not_done_is_a_failure)
{
	static const char *const specs[] = {"disk.link=error:EEXIST", "disk.link=error:EPERM,disk.rename=error:ENOENT"};
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		arm(specs[i]);
		cr_expect_lt(disk_put_file(d, root, "a", "one", 3, false, NULL), 0, "%s", specs[i]);
		arm("");
		cr_expect_eq(name_count(), 0, "%s", specs[i]);
	}
	scratch_write(path, "a", "old", 3);
	arm("disk.rename=error:ENOENT");
	cr_expect_eq(disk_put_file(d, root, "a", "new", 3, true, NULL), -ENOENT);
	arm("disk.link.after=error:EEXIST");
	cr_expect_eq(disk_put_file(d, root, "a", "old", 3, false, NULL), -EEXIST,
		     "another file, though it says the same");
	arm("");
	expect_contents("a", "old", 3);
}

Test(disk_sync, a_lock_is_held_until_closed)
{
	int lock = disk_lock(d, root, ".lock");
	cr_assert_geq(lock, 0);
	cr_expect_eq(disk_lock(d, root, ".lock"), -EWOULDBLOCK);
	disk_close_file(d, lock);
	lock = disk_lock(d, root, ".lock");
	cr_expect_geq(lock, 0);
	disk_close_file(d, lock);
}

Test(disk_sync, a_lock_stands_as_long_as_its_name_is_that_of_the_file)
{
	int lock = disk_lock(d, root, ".lock");
	cr_assert_geq(lock, 0);
	cr_expect(disk_lock_stands(d, root, ".lock", lock));
	cr_assert_eq(renameat(root, ".lock", root, "away"), 0);
	cr_expect_not(disk_lock_stands(d, root, ".lock", lock), "there is none of that name");
	scratch_write(path, ".lock", "", 0);
	cr_expect_not(disk_lock_stands(d, root, ".lock", lock), "another file has its name");
	cr_assert_eq(renameat(root, "away", root, ".lock"), 0);
	cr_expect(disk_lock_stands(d, root, ".lock", lock));
	disk_close_file(d, lock);
}

static mode_t widest; /* of what is given another mode, before it is */

/* In the place of the C library's. */
int fchmod(int fd, mode_t mode)
{
	struct stat st;
	if (!fstat(fd, &st))
		widest |= st.st_mode & 0777;
	return (int)syscall(SYS_fchmod, fd, mode);
}

Test(disk_sync, a_lock_is_never_open_to_whoever_may_not_write)
{
	static const struct {
		mode_t mask, mode;
	} cases[] = {{0, 0660}, {002, 0660}, {007, 0660}, {022, 0600}, {027, 0600}, {077, 0600}};
	struct stat st;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		widest = 0;
		mode_t was = umask(cases[i].mask);
		int lock = disk_lock(d, root, ".lock");
		umask(was);
		cr_assert_geq(lock, 0);
		cr_assert_eq(fstat(lock, &st), 0);
		cr_expect_eq(st.st_mode & 0777, cases[i].mode, "umask %o: %o", cases[i].mask, st.st_mode);
		cr_expect_eq(widest & ~cases[i].mode, 0, "umask %o: it was %o", cases[i].mask, widest);
		cr_expect_eq(widest & 0044, 0, "umask %o: it was %o", cases[i].mask, widest);
		cr_assert_eq(unlinkat(root, ".lock", 0), 0);
		disk_close_file(d, lock);
	}
}

Test(disk_sync, a_lock_that_was_made_wide_is_closed)
{
	struct stat st;
	scratch_write(path, ".lock", "", 0);
	cr_assert_eq(fchmodat(root, ".lock", 0644, 0), 0);
	int lock = disk_lock(d, root, ".lock");
	cr_assert_eq(fstat(lock, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0600);
	disk_close_file(d, lock);
}

Test(disk_sync, space_is_told)
{
	uint64_t free_bytes = 0, total = 0;
	cr_expect_eq(disk_space(d, root, &free_bytes, &total), 0);
	cr_expect_gt(total, 0);
	cr_expect_leq(free_bytes, total);
}

Test(disk_sync, a_missing_root_is_named)
{
	struct disk *none;
	int dir;
	struct err err = {0};
	cr_expect_eq(disk_new("/nowhere/at/all", &none, &dir, &err), -ENOENT);
	cr_expect(strstr(err.text, "/nowhere/at/all"), "%s", err.text);
	cr_expect_null(none);
}

Test(disk_sync, remove_file_says_what_was_not_there)
{
	struct err err = {0};
	scratch_write(path, "a", "hello", 5);
	cr_expect_eq(disk_remove_file(d, root, "a", &err), 0, "%s", err.text);
	cr_expect_eq(name_count(), 0);
	cr_expect_eq(disk_remove_file(d, root, "a", &err), -ENOENT);
	cr_expect(strstr(err.text, "a"));
}

Test(disk_sync, remove_file_is_not_done_until_the_directory_is_synced)
{
	struct err err = {0};
	scratch_write(path, "a", "hello", 5);
	arm("disk.fsync=error:EIO");
	cr_expect_eq(disk_remove_file(d, root, "a", &err), -EIO);
	arm("");
	scratch_write(path, "b", "hello", 5);
	arm("disk.unlink.after=error:ENOENT,disk.fsync=error:EIO");
	cr_expect_eq(disk_remove_file(d, root, "b", &err), -EIO, "nor when it is said not to have been there");
	arm("");
}
