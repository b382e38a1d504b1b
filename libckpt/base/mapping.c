#include "base/mapping.h"

#include "base/bytes.h"

#include <sys/mman.h>

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
