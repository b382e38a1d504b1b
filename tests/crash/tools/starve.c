/* starve: a library to be preloaded that lets one call fail. CKPT_STARVE names a file of four u64: how many calls there have been, which of
 * them is to fail (0: none), how many have failed so, and which calls are counted: 0 allocations, 1 what makes a descriptor, a mapping or a
 * thread. A test maps it too, and so chooses when to count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* glibc's, under the names that it keeps for this. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

enum { ALLOCATIONS, RESOURCES };

struct control {
	_Atomic uint64_t count, fail_at, failed, counted;
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

static int refused_with(uint64_t kind, int error)
{
	if (!control || control->counted != kind || atomic_fetch_add(&control->count, 1) + 1 != control->fail_at)
		return 0;
	control->failed++;
	errno = error;
	return 1;
}

static int refused(void)
{
	return refused_with(ALLOCATIONS, ENOMEM);
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

/* ---- what makes a descriptor, a mapping or a thread -------------------------------------------------------------- */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define DESCRIPTOR(name, args, ...)                                                                                    \
	int name args                                                                                                  \
	{                                                                                                              \
		return refused_with(RESOURCES, EMFILE) ? -1 : REAL(name)(__VA_ARGS__);                                 \
	}

DESCRIPTOR(socket, (int domain, int type, int protocol), domain, type, protocol)
DESCRIPTOR(socketpair, (int domain, int type, int protocol, int fds[2]), domain, type, protocol, fds)
DESCRIPTOR(accept4, (int fd, struct sockaddr *address, socklen_t *len, int flags), fd, address, len, flags)
DESCRIPTOR(pipe2, (int fds[2], int flags), fds, flags)
DESCRIPTOR(eventfd, (unsigned first, int flags), first, flags)
DESCRIPTOR(timerfd_create, (clockid_t clock, int flags), clock, flags)
DESCRIPTOR(signalfd, (int fd, const sigset_t *mask, int flags), fd, mask, flags)
DESCRIPTOR(epoll_create1, (int flags), flags)
DESCRIPTOR(epoll_ctl, (int fd, int op, int of, struct epoll_event *event), fd, op, of, event)
DESCRIPTOR(memfd_create, (const char *name, unsigned flags), name, flags)
DESCRIPTOR(dup, (int fd), fd)
DESCRIPTOR(dup3, (int fd, int to, int flags), fd, to, flags)

static mode_t mode_of(int flags, va_list list)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

#define OPEN(name, head, ...)                                                                                          \
	int name head                                                                                                  \
	{                                                                                                              \
		va_list list;                                                                                          \
		va_start(list, flags);                                                                                 \
		mode_t mode = mode_of(flags, list);                                                                    \
		va_end(list);                                                                                          \
		return refused_with(RESOURCES, EMFILE) ? -1 : REAL(name)(__VA_ARGS__, mode);                           \
	}

OPEN(open, (const char *path, int flags, ...), path, flags)
OPEN(open64, (const char *path, int flags, ...), path, flags)
OPEN(openat, (int folder, const char *path, int flags, ...), folder, path, flags)
OPEN(openat64, (int folder, const char *path, int flags, ...), folder, path, flags)

#define MAPPING(name)                                                                                                  \
	void *name(void *at, size_t size, int prot, int flags, int fd, off_t offset)                                   \
	{                                                                                                              \
		return refused_with(RESOURCES, ENOMEM) ? MAP_FAILED : REAL(name)(at, size, prot, flags, fd, offset);   \
	}

MAPPING(mmap)
MAPPING(mmap64)

int ftruncate(int fd, off_t size)
{
	return refused_with(RESOURCES, ENOMEM) ? -1 : REAL(ftruncate)(fd, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with)
{
	return refused_with(RESOURCES, EAGAIN) ? EAGAIN : REAL(pthread_create)(thread, how, run, with);
}
