#include "process/left_memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 4096 };

static struct left_memory all;
static char text[LEFT_MEMORY_TEXT_MAX];

static void teardown(void)
{
	left_memory_free(&all);
}

TestSuite(left_memory, .fini = teardown);

static void *map(int fd)
{
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, BYTES), 0);
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(at, MAP_FAILED);
	return at;
}

Test(left_memory, an_arena_is_left_while_somebody_has_it_mapped_or_open)
{
	char who[64];
	int fd = memfd_create("ckpt:gpt", MFD_CLOEXEC);
	void *at = map(fd);
	cr_expect_not(left_memory_find(&all, text), "nothing was noted");
	cr_assert_eq(left_memory_note(&all, getpid()), 0);
	cr_expect_eq(all.n, 1);
	cr_assert_eq(left_memory_note(&all, getpid()), 0);
	cr_expect_eq(all.n, 1, "once");
	snprintf(who, sizeof(who), "process %d has the shared memory /memfd:ckpt:gpt", (int)getpid());
	cr_expect(left_memory_find(&all, text) && strstr(text, who), "%s", text);
	munmap(at, BYTES);
	cr_expect(left_memory_find(&all, text), "it is open yet");
	at = map(fd);
	close(fd);
	cr_expect(left_memory_find(&all, text), "it is mapped again");
	munmap(at, BYTES);
	cr_expect_not(left_memory_find(&all, text), "%s", text);
}

Test(left_memory, a_file_in_dev_shm_is_left_until_it_is_removed)
{
	char path[64];
	snprintf(path, sizeof(path), "/dev/shm/left-memory-%d", (int)getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	void *at = map(fd);
	cr_assert_eq(left_memory_note(&all, getpid()), 0);
	munmap(at, BYTES);
	close(fd);
	cr_expect(left_memory_find(&all, text) && strstr(text, path), "%s", text);
	unlink(path);
	cr_expect_not(left_memory_find(&all, text), "%s", text);
}

Test(left_memory, what_was_noted_is_known_to_another_process)
{
	struct left_memory other = {.n = 0};
	char path[] = "/tmp/left-memory-XXXXXX", line[256];
	close(mkstemp(path));
	int fd = memfd_create("ckpt:gpt", MFD_CLOEXEC);
	void *at = map(fd);
	cr_assert_eq(left_memory_note(&all, getpid()), 0);
	cr_assert_eq(left_memory_append(&all, 0, path), 0);
	cr_assert_eq(left_memory_append(&all, 1, path), 0);
	cr_assert_eq(left_memory_read(&other, path), 0);
	cr_expect_eq(other.n, 1);
	cr_expect(left_memory_find(&other, text) && strstr(text, "/memfd:ckpt:gpt"), "%s", text);
	munmap(at, BYTES);
	close(fd);
	cr_expect_not(left_memory_find(&other, text), "%s", text);
	left_memory_free(&other);
	FILE *f = fopen(path, "r");
	cr_assert(f && fgets(line, sizeof(line), f));
	fclose(f);
	f = fopen(path, "w");
	cr_assert(f);
	*line = *line == '0' ? '1' : '0';
	fputs(line, f);
	fclose(f);
	cr_assert_eq(left_memory_read(&other, path), 0);
	cr_expect_eq(other.n, 0, "it is of before a restart");
	unlink(path);
	cr_expect_eq(left_memory_read(&other, path), 0, "there is none");
	cr_expect_eq(left_memory_append(&all, 0, "/nowhere/file"), -ENOENT);
}

Test(left_memory, memory_of_others_and_what_is_only_read_is_not_noted)
{
	int other = memfd_create("other", MFD_CLOEXEC), fd = memfd_create("ckpt:gpt", MFD_CLOEXEC);
	map(other);
	cr_assert_eq(ftruncate(fd, BYTES), 0);
	cr_assert_neq(mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
	cr_assert_eq(left_memory_note(&all, getpid()), 0);
	cr_expect_eq(all.n, 0);
	cr_expect_eq(left_memory_note(&all, 0x7ffffffe), 0, "there is no such process");
}
