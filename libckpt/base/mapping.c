#include "base/mapping.h"

#include "base/bytes.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif

/* An address at which `size` bytes were free a moment ago. It serves as a hint only: whoever takes it meanwhile keeps it. */
static void *aligned_place(uint64_t size)
{
	uint64_t room = size + HUGE_PAGE;
	if (room < size)
		return NULL;
	void *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	munmap(p, room);
	return (void *)(uintptr_t)align_up((uintptr_t)p, HUGE_PAGE);
}

void *mapping_shared(int fd, uint64_t size, int prot)
{
	return mmap(aligned_place(size), size, prot, MAP_SHARED, fd, 0);
}

/* One page of each huge one is enough: what is missing is cleared when the huge page takes its place. */
bool mapping_collapse(void *base, uint64_t n)
{
	for (uint64_t at = 0; at < n; at += HUGE_PAGE)
		if (madvise((char *)base + at, 1, MADV_POPULATE_WRITE) < 0)
			return false;
	int rc = madvise(base, n, MADV_COLLAPSE);
	if (rc < 0 && errno == EAGAIN) /* somebody touched it meanwhile */
		rc = madvise(base, n, MADV_COLLAPSE);
	return rc == 0;
}
