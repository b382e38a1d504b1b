#include "disk_fixture.h"

#include <string.h>

char path[SCRATCH_MAX];
struct disk *d;
int root;

void disk_setup(void)
{
	struct err err = {0};
	scratch_new(path);
	cr_assert_eq(disk_new(path, &d, &root, &err), 0, "%s", err.text);
}

void disk_teardown(void)
{
	disk_free(d);
	scratch_remove(path);
}

int do_name(enum disk_kind kind, const char *name)
{
	struct disk_op op = {.kind = kind, .dir = root, .name = name};
	return disk_do(d, &op);
}

int do_names(enum disk_kind kind, const char *name, const char *name2)
{
	struct disk_op op = {.kind = kind, .dir = root, .name = name, .dir2 = root, .name2 = name2};
	return disk_do(d, &op);
}

int64_t transfer(enum disk_kind kind, int file, void *buf, uint64_t offset, uint64_t len)
{
	struct disk_op op = {.kind = kind, .file = file, .buf = buf, .offset = offset, .len = len};
	disk_do(d, &op);
	return op.result;
}

int do_file(enum disk_kind kind, int file, uint64_t size)
{
	struct disk_op op = {.kind = kind, .file = file, .offset = size};
	return disk_do(d, &op);
}

int create(const char *name, unsigned flags)
{
	int file = disk_open_at(d, root, name, DISK_CREATE | flags);
	cr_assert_geq(file, 0, "%s: %s", name, err_name(file));
	return file;
}

uint8_t *pattern(size_t len, uint64_t seed)
{
	uint64_t *p = aligned_alloc(DISK_ALIGN, align_up(len, DISK_ALIGN));
	cr_assert(p);
	for (size_t i = 0; i < align_up(len, DISK_ALIGN) / 8; i++)
		p[i] = (i + seed) * 0x9e3779b97f4a7c15ull;
	return (uint8_t *)p;
}

void expect_contents(const char *name, const void *want, size_t len)
{
	size_t size;
	AUTO_FREE void *data = scratch_read(path, name, &size);
	cr_assert_eq(size, len, "%s has %zu bytes instead of %zu", name, size, len);
	cr_assert_eq(memcmp(data, want, len), 0, "%s has other contents", name);
}

bool exists(const char *name)
{
	struct disk_stat st;
	return !disk_stat_at(d, root, name, &st);
}

void arm(const char *spec)
{
	struct err err = {0};
	cr_assert_eq(failpoint_arm(spec, &err), 0, "%s", err.text);
}
