#include "base/cleanup.h"
#include "base/failpoint.h"
#include "base/mapping.h"
#include "ckptd/job_maker.h"
#include "format/make_registration.h"
#include "scratch.h"
#include "store/disk/disk.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define OVERCOMMIT "/proc/sys/vm/nr_overcommit_hugepages"
enum { LENT_PAGES = 16 };

static struct memory *mem;
static int pool_lock = -1;
static long pool_was;

/* ---- a pool: surplus pages, which the kernel makes when they are asked for; other tests are kept out meanwhile ------ */

static bool set_overcommit(long pages)
{
	FILE *f = fopen(OVERCOMMIT, "r+");
	bool ok = f && fprintf(f, "%ld\n", pages) > 0;
	return f && !fclose(f) && ok;
}

static void lend_pool(void)
{
	pool_lock = open("/tmp/ckpt-test-pool.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0666);
	FILE *f = fopen(OVERCOMMIT, "r");
	if (pool_lock < 0 || flock(pool_lock, LOCK_EX) < 0 || !f || fscanf(f, "%ld", &pool_was) != 1)
		cr_skip_test("this kernel has no pool of huge pages (" OVERCOMMIT ")");
	fclose(f);
	if (!set_overcommit(pool_was + LENT_PAGES)) {
		close(pool_lock);
		pool_lock = -1;
	}
}

static void teardown(void)
{
	memory_put(mem);
	if (pool_lock >= 0) {
		set_overcommit(pool_was);
		close(pool_lock);
	}
}

TestSuite(memory_pages, .fini = teardown);

static struct memory *create(enum huge_pages policy)
{
	struct table *table;
	struct layout layout;
	struct err err = {{0}};
	maker_tables(0, &table, &layout);
	cr_assert_eq(memory_create("main", table, &layout, ARENA_SLOTS_MIN, policy, &mem, &err), 0, "%s", err.text);
	table_put(table);
	return mem;
}

/* Of the pool, and not yet filled. */
static void create_of_pool(void)
{
	lend_pool();
	create(HUGE_PAGES_AUTO);
	if (!mem->reserved)
		cr_skip_test("no huge pages of the pool: there are none, and root alone may raise " OVERCOMMIT
			     ", or the kernel finds none in its memory");
}

static void fill(void)
{
	uint64_t at = 0;
	int rc;
	while ((rc = memory_fill(mem, &at)) > 0)
		;
	cr_assert_eq(rc, 0, "%s", err_name(rc));
	cr_assert_eq(at, mem->size);
	mem->ready = true;
}

static void prefault(bool huge)
{
	struct prefaulted p = {0};
	while (memory_prefault(mem, huge, &p))
		;
	cr_assert_eq(p.bytes, mem->size);
	mem->huge_bytes = p.huge;
}

static void expect_adoptable(void)
{
	struct memory *back = NULL;
	struct err err = {{0}};
	cr_assert_eq(memory_adopt(dup(mem->fd), "main", &back, &err), 0, "%s", err.text);
	cr_assert(back->ready);
	cr_assert_eq(back->reserved, mem->reserved);
	cr_assert(digest_equal(back->sum, mem->sum));
	cr_assert_eq(memcmp(memory_slot(back, 1), memory_slot(mem, 1), back->slot_size), 0);
	memory_put(back);
}

/* ---- each kind --------------------------------------------------------------------------------------------------- */

Test(memory_pages, without_huge_pages_an_arena_has_ordinary_ones)
{
	create(HUGE_PAGES_NEVER);
	prefault(false);
	cr_assert(mem->ready && !mem->reserved);
	cr_assert_eq(memory_page_bytes(mem), (uint64_t)sysconf(_SC_PAGESIZE));
	memset(memory_slot(mem, 1), 7, mem->slot_size);
	expect_adoptable();
}

Test(memory_pages, transparent_ones_keep_what_was_written_before)
{
	create(HUGE_PAGES_TRANSPARENT);
	cr_assert(mem->ready && !mem->reserved);
	memset(memory_slot(mem, 1), 7, mem->slot_size);
	prefault(true);
	for (uint64_t i = 0; i < mem->slot_size; i++)
		cr_assert_eq(memory_slot(mem, 1)[i], 7);
	expect_adoptable();
	if (!mem->huge_bytes)
		cr_skip_test(
			"this kernel makes no huge pages of shared memory (it takes Linux 6.1, or shmem_enabled, and "
			"memory that is not scattered)");
	cr_assert_eq(memory_page_bytes(mem), (uint64_t)HUGE_PAGE);
}

Test(memory_pages, those_of_the_pool_are_ready_when_all_are_there)
{
	create_of_pool();
	cr_assert(!mem->ready);
	cr_assert_eq(mem->head->magic, ARENA_MAGIC);
	fill();
	prefault(true);
	cr_assert_eq(memory_page_bytes(mem), (uint64_t)HUGE_PAGE);
	memset(memory_slot(mem, 1), 7, mem->slot_size);
	expect_adoptable();
}

Test(memory_pages, those_of_the_pool_are_sealed_and_the_neighbours_read_them_only)
{
	create_of_pool();
	fill();
	cr_assert_lt(ftruncate(mem->fd, HUGE_PAGE), 0);
	cr_assert_eq(mapping_shared(mem->fd_read, mem->size, PROT_READ | PROT_WRITE), MAP_FAILED);
	uint8_t *p = mapping_shared(mem->fd_read, mem->size, PROT_READ);
	cr_assert_neq(p, MAP_FAILED);
	cr_assert_eq(memcmp(p, mem->base, ARENA_HEAD), 0);
	cr_assert_eq(munmap(p, mem->size), 0);
}

Test(memory_pages, those_of_the_pool_serve_as_fixed_buffers)
{
	char dir[SCRATCH_MAX];
	struct disk *disk;
	int root;
	struct err err = {{0}};
	create_of_pool();
	fill();
	memset(memory_slot(mem, 1), 7, mem->slot_size);
	scratch_new(dir);
	cr_assert_eq(disk_new(dir, &disk, &root, &err), 0, "%s", err.text);
	int token = disk_register(disk, mem->base, mem->size);
	cr_assert_geq(token, 0, "%s", err_name(token));
	int rc = disk_pin(disk, token, mem->size);
	cr_assert(rc == 0 || rc == -ENOMEM /* memlock */, "%s", err_name(rc));
	int file = disk_open_at(disk, root, "f", DISK_CREATE | DISK_DIRECT);
	uint64_t len = mem->slot_size / DISK_ALIGN * DISK_ALIGN;
	struct disk_op write = {.kind = DISK_WRITE, .file = file, .buf = memory_slot(mem, 1), .len = len};
	cr_assert_eq(disk_do(disk, &write), (int)len);
	disk_close_file(disk, file);
	AUTO_FREE uint8_t *back = NULL;
	size_t n = 0;
	cr_assert_eq(disk_read_file(disk, root, "f", len, (void **)&back, &n, &err), 0, "%s", err.text);
	cr_assert_eq(n, len);
	cr_assert_eq(memcmp(back, memory_slot(mem, 1), len), 0);
	disk_unregister(disk, token);
	disk_free(disk);
	scratch_remove(dir);
}

/* ---- shortage ------------------------------------------------------------------------------------------------------ */

Test(memory_pages, an_arena_larger_than_the_pool_gets_other_pages)
{
	struct shape shape = shape1(1ull << 40);
	struct registration reg = {.world = 1};
	struct err err = {{0}};
	add_tensor(&reg, "w", DTYPE_U8, shape, "", region_whole(&shape));
	struct table *table = maker_table(&reg);
	const struct registration *regs[] = {&table->reg};
	struct layout layout;
	cr_assert_eq(layout_make(regs, 1, true, LAYOUT_FILE_MAX, &layout, &err), 0, "%s", err.text);
	cr_assert_eq(memory_create("main", table, &layout, ARENA_SLOTS_MIN, HUGE_PAGES_AUTO, &mem, &err), 0, "%s",
		     err.text);
	table_put(table);
	cr_assert(mem->ready && !mem->reserved);
	cr_assert_eq(mem->head->magic, ARENA_MAGIC);
}

Test(memory_pages, a_pool_that_refuses_leaves_nothing_open)
{
	unsigned before = open_descriptors();
	cr_assert_eq(failpoint_arm("memory.pool=error:ENOMEM", NULL), 0);
	create(HUGE_PAGES_AUTO);
	cr_assert(mem->ready && !mem->reserved);
	cr_assert_eq(open_descriptors(), before + 2);
	expect_adoptable();
}

/* The cgroup may have less of the pool than the pool has. */
Test(memory_pages, an_arena_that_cannot_be_filled_moves_into_ordinary_pages)
{
	struct err err = {{0}};
	uint64_t at = 0;
	create_of_pool();
	cr_assert_eq(failpoint_arm("memory.fill=error:ENOSPC", NULL), 0);
	cr_assert_eq(memory_fill(mem, &at), -ENOSPC);
	unsigned before = open_descriptors();
	cr_assert_eq(memory_fall_back(mem, "main", &err), 0, "%s", err.text);
	cr_assert_eq(open_descriptors(), before);
	cr_assert(mem->ready && !mem->reserved);
	expect_adoptable();
}

/* ---- what comes back -------------------------------------------------------------------------------------------- */

Test(memory_pages, memory_of_the_pool_with_a_hole_is_refused)
{
	struct err err = {{0}};
	struct memory *back;
	create_of_pool();
	fill();
	cr_assert_eq(fallocate(mem->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HUGE_PAGE, HUGE_PAGE), 0);
	cr_assert_eq(memory_adopt(dup(mem->fd), "main", &back, &err), -EBADMSG);
	cr_assert(strstr(err.text, "bytes are there"), "%s", err.text);
}
