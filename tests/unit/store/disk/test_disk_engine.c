/* Which engine a context gets; that both behave alike is shown by running this whole program with each (tests/run.py). */
#include "store/disk/disk.h"

#include "base/cleanup.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[SCRATCH_MAX];

static void setup(void)
{
	scratch_new(path);
}

static void teardown(void)
{
	scratch_remove(path);
}

TestSuite(disk_engine, .init = setup, .fini = teardown);

/* As the profile of a container does, for the rest of this process. */
static void forbid(unsigned call)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(filter) / sizeof(*filter), .filter = filter};
	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		cr_skip_test("seccomp filters cannot be set here: %s", strerror(errno));
}

static void write_and_read_back(struct disk *d, int root)
{
	char back[8] = "";
	int file = disk_open_at(d, root, "a", DISK_CREATE);
	cr_assert_geq(file, 0, "%s", err_name(file));
	struct disk_op write = {.kind = DISK_WRITE, .file = file, .buf = (char[]){"abcdefg"}, .len = 8};
	cr_expect_eq(disk_do(d, &write), 8);
	cr_expect_eq(disk_close_file(d, file), 0);
	file = disk_open_at(d, root, "a", DISK_RDONLY);
	struct disk_op read = {.kind = DISK_READ, .file = file, .buf = back, .len = 8};
	cr_expect_eq(disk_do(d, &read), 8);
	cr_expect_str_eq(back, "abcdefg");
	disk_close_file(d, file);
}

Test(disk_engine, the_path_of_a_store_that_is_not_there_stays_on_its_line)
{
	struct err err = {{0}};
	struct disk *d;
	int root;
	cr_expect_eq(disk_new("/nowhere/\x1b[2J\n\xff", &d, &root, &err), -ENOENT);
	cr_expect(strstr(err.text, "the directory /nowhere/\\x1b[2J\\n\\xff: "), "%s", err.text);
}

Test(disk_engine, where_io_uring_is_forbidden_threads_take_its_place)
{
	struct err err = {{0}};
	struct disk *d;
	int root;
	unsetenv("CKPT_DISK_ENGINE");
	forbid(__NR_io_uring_setup);
	cr_assert_eq(disk_new(path, &d, &root, &err), 0, "%s", err.text);
	cr_expect_str_eq(disk_engine(d), "threads");
	cr_expect_eq(disk_register(d, path, sizeof(path)), -ENOTSUP);
	write_and_read_back(d, root);
	disk_free(d);
}

Test(disk_engine, where_a_queue_may_be_made_and_not_used_threads_take_its_place)
{
	static const unsigned calls[] = {__NR_io_uring_enter, __NR_io_uring_register};
	unsetenv("CKPT_DISK_ENGINE");
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct err err = {{0}};
		struct disk *d;
		int root;
		if (fork())
			continue;
		forbid(calls[i]);
		bool good = !disk_new(path, &d, &root, &err) && !strcmp(disk_engine(d), "threads");
		_exit(good ? 0 : 1);
	}
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		int status = -1;
		cr_assert_gt(wait(&status), 0);
		cr_expect_eq(status, 0);
	}
}

Test(disk_engine, io_uring_that_was_demanded_and_is_forbidden_is_an_error)
{
	struct err err = {{0}};
	struct disk *d;
	int root;
	setenv("CKPT_DISK_ENGINE", "uring", 1);
	forbid(__NR_io_uring_setup);
	cr_expect_eq(disk_new(path, &d, &root, &err), -EPERM);
	cr_expect(strstr(err.text, "seccomp"), "%s", err.text);
	cr_expect_eq(d, NULL);
}

Test(disk_engine, the_environment_chooses)
{
	struct err err = {{0}};
	struct disk *d;
	int root;
	setenv("CKPT_DISK_ENGINE", "threads", 1);
	cr_assert_eq(disk_new(path, &d, &root, &err), 0, "%s", err.text);
	cr_expect_str_eq(disk_engine(d), "threads");
	disk_free(d);
	setenv("CKPT_DISK_ENGINE", "floppy\n\xff", 1);
	cr_expect_eq(disk_new(path, &d, &root, &err), -EINVAL);
	cr_expect_str_eq(err.text, "CKPT_DISK_ENGINE is \"floppy\\n\\xff\": it can be auto, uring or threads");
}
