/* starve: a library to be preloaded that lets one allocation fail. CKPT_STARVE names a file of four u64: how many allocations there have
 * been, which of them is to fail (0: none), and how many have failed so. A test maps it too, and so chooses when to count. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's, under the names that it keeps for this. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

struct control {
	_Atomic uint64_t count, fail_at, failed, unused;
};

static struct control *control;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("CKPT_STARVE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	control = at == MAP_FAILED ? NULL : at;
}

static int refused(void)
{
	if (!control || atomic_fetch_add(&control->count, 1) + 1 != control->fail_at)
		return 0;
	control->failed++;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size)
{
	return refused() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return refused() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return refused() ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return refused() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	void *at = aligned_alloc(align, size);
	if (!at)
		return ENOMEM;
	*p = at;
	return 0;
}
