#include "arena/memory_private.h"
#include "arena/numa_node.h"
#include "base/cleanup.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

enum {
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
	SLICE = 64 << 20,
};
_Static_assert(ARENA_ALIGN % HUGE_PAGE == 0, "every arena is made of whole huge pages");

/* ---- making -------------------------------------------------------------------------------------------------- */

static int make_memfd(uint64_t size, const char *job, unsigned flags, struct err *err)
{
	char name[96];
	char text[16];
	snprintf(name, sizeof(name), "ckpt:%s", job);
	AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	if (fd < 0)
		return err_set(err, -errno, "memfd_create: %s", err_name(errno));
	if (ftruncate(fd, (off_t)size) < 0)
		return err_set(err, -errno, "cannot size an arena of %s: %s%s", bytes_human(text, sizeof(text), size),
			       err_name(errno),
			       errno == EFBIG ? ": raise the limit of file sizes (ulimit -f) for ckptd" : "");
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return err_set(err, -errno, "cannot seal an arena: %s", err_name(errno));
	return steal_fd(&fd);
}

/* Of the kernel's pool, mapping reserves every page that is not there yet: it fails at once where the pool is too small. */
static int map_arena(struct memory *mem, struct err *err)
{
	char text[16];
	void *base = mapping_shared(mem->fd, mem->size, PROT_READ | PROT_WRITE);
	if (base == MAP_FAILED)
		return err_set(err, -errno, "cannot map an arena of %s: %s", bytes_human(text, sizeof(text), mem->size),
			       err_name(errno));
	mem->base = base;
	mem->head = base;
	madvise(base, mem->size, MADV_DONTFORK);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", mem->fd);
	mem->fd_read = open(path, O_RDONLY | O_CLOEXEC);
	if (mem->fd_read < 0)
		return err_set(err, -errno, "cannot open %s read-only (is /proc mounted?): %s", path, err_name(errno));
	return 0;
}

static int make(struct memory *mem, const char *job, unsigned flags, struct err *err)
{
	int rc = mem->fd = make_memfd(mem->size, job, flags, err);
	return rc < 0 ? rc : map_arena(mem, err);
}

/* What is written at once must be there: a missing page could end the daemon. */
static int make_of_pool(struct memory *mem, const char *job, uint64_t top, struct err *err)
{
	int rc = failpoint("memory.pool", NULL);
	if (!rc)
		rc = make(mem, job, MFD_HUGETLB | MFD_HUGE_2MB, err);
	if (!rc && fallocate(mem->fd, 0, 0, (off_t)align_up(top, HUGE_PAGE)) < 0)
		rc = -errno;
	if (rc)
		pages_free(mem);
	return rc;
}

int pages_make(struct memory *mem, const char *job, uint64_t top, enum huge_pages policy, struct err *err)
{
	struct err ignored = {{0}};
	mem->reserved = policy == HUGE_PAGES_AUTO && !make_of_pool(mem, job, top, &ignored);
	mem->ready = !mem->reserved;
	return mem->reserved ? 0 : make(mem, job, 0, err);
}

void pages_free(struct memory *mem)
{
	if (mem->base)
		munmap(mem->base, mem->size);
	cleanup_close(&mem->fd_read);
	cleanup_close(&mem->fd);
	mem->fd = mem->fd_read = -1;
	mem->base = NULL;
	mem->head = NULL;
}

/* ---- adopting ------------------------------------------------------------------------------------------------ */

/* Memory of the pool that is not all there may find the pool empty when it is touched: SIGBUS. Ours always is, see memory_fill. */
static int check_kind(struct memory *mem, const struct stat *st, struct err *err)
{
	struct statfs fs;
	if (fstatfs(mem->fd, &fs) < 0 || (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC))
		return err_set(err, -EBADMSG, "the descriptor is not shared memory");
	mem->reserved = fs.f_type == HUGETLBFS_MAGIC;
	if (!mem->reserved)
		return 0;
	if (fs.f_bsize != HUGE_PAGE)
		return err_set(err, -EBADMSG, "shared memory in pages of %ld bytes; those of an arena have %d",
			       (long)fs.f_bsize, HUGE_PAGE);
	if ((uint64_t)st->st_blocks * 512 < (uint64_t)st->st_size)
		return err_set(err, -EBADMSG, "only %lld of the arena's %lld bytes are there",
			       (long long)st->st_blocks * 512, (long long)st->st_size);
	return 0;
}

/* Without the seals its owner could cut the file under our mapping (SIGBUS). */
static int check_descriptor(struct memory *mem, struct err *err)
{
	struct stat st;
	int seals = fcntl(mem->fd, F_GET_SEALS);
	if (fstat(mem->fd, &st) < 0)
		return err_set(err, -errno, "fstat of an arena: %s", err_name(errno));
	int rc = check_kind(mem, &st, err);
	if (rc)
		return rc;
	if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
		return err_set(err, -EBADMSG, "the descriptor is not a sealed arena");
	if (st.st_size < ARENA_HEAD)
		return err_set(err, -EBADMSG, "an arena of %lld bytes is smaller than its head", (long long)st.st_size);
	mem->size = (uint64_t)st.st_size;
	return 0;
}

int pages_adopt(struct memory *mem, struct err *err)
{
	int rc = check_descriptor(mem, err);
	mem->ready = true;
	return rc ? rc : map_arena(mem, err);
}

/* ---- filling ------------------------------------------------------------------------------------------------- */

int memory_fill(struct memory *mem, uint64_t *at)
{
	int rc = failpoint("memory.fill", NULL);
	uint64_t n = min_u64(SLICE, mem->size - *at);
	while (!rc && fallocate(mem->fd, 0, (off_t)*at, (off_t)n) < 0)
		rc = errno == EINTR ? 0 : -errno;
	if (rc)
		return rc;
	*at += n;
	return *at < mem->size;
}

int memory_fall_back(struct memory *mem, const char *job, struct err *err)
{
	struct memory was = *mem;
	mem->fd = mem->fd_read = -1;
	mem->base = NULL;
	int rc = make(mem, job, 0, err);
	if (!rc && memory_renew(mem, job))
		rc = err_set(err, -ENOMEM, "no memory for the head of an arena");
	if (rc) {
		pages_free(mem);
		*mem = was;
		return rc;
	}
	pages_free(&was);
	mem->reserved = false;
	mem->ready = true;
	return 0;
}

int memory_near(struct memory *mem, pid_t pid, const char *root)
{
	int node = numa_node_of_process(pid, root), rc = node < 0 ? node : numa_prefer(mem->base, mem->size, node);
	mem->near = !rc;
	return rc;
}

/* The kernel collects a huge page where most of the small ones in its place are, and without any wherever it likes. */
static void touch_one_of_each(uint8_t *from, uint64_t n)
{
	for (uint64_t at = 0; at < n; at += HUGE_PAGE)
		madvise(from + at, (size_t)sysconf(_SC_PAGESIZE), MADV_POPULATE_WRITE);
}

bool memory_prefault(struct memory *mem, bool huge, struct prefaulted *p)
{
	if (failpoint("memory.prefault", NULL))
		return false;
	if (!p->bytes)
		madvise(mem->base, mem->size,
			huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); /* refused where there are none */
	uint64_t n = min_u64(SLICE, mem->size - p->bytes);
	uint8_t *from = mem->base + p->bytes;
	/* Where memory is short of huge pages the search for one more costs more than it brings. */
	if (huge && !p->short_of_huge && !mem->reserved) {
		if (mem->near)
			touch_one_of_each(from, n);
		errno = 0;
		if (mapping_collapse(from, n))
			p->huge += n;
		else
			p->short_of_huge = errno == ENOMEM;
	}
	/* Before Linux 5.14, or above a memory limit: the pages come at first touch instead. */
	if (madvise(from, n, MADV_POPULATE_WRITE) < 0)
		return false;
	p->bytes += n;
	return p->bytes < mem->size;
}

uint64_t memory_page_bytes(const struct memory *mem)
{
	return mem->reserved || mem->huge_bytes == mem->size ? HUGE_PAGE : (uint64_t)sysconf(_SC_PAGESIZE);
}
