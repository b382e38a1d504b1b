/* Scope-bound release, in reverse order of declaration. The variable is always initialised where it is declared. */
#ifndef CKPT_BASE_CLEANUP_H
#define CKPT_BASE_CLEANUP_H

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_closedir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static inline void cleanup_unlock(pthread_mutex_t **lock)
{
	if (*lock)
		pthread_mutex_unlock(*lock);
}

#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_CLOSE __attribute__((cleanup(cleanup_close)))
#define AUTO_CLOSEDIR __attribute__((cleanup(cleanup_closedir)))

/* Holds the mutex until the end of the scope. */
#define LOCK_SCOPE_NAME2(line) lock_scope_##line
#define LOCK_SCOPE_NAME(line) LOCK_SCOPE_NAME2(line)
#define LOCK_SCOPE(mutex)                                                                                              \
	pthread_mutex_t *LOCK_SCOPE_NAME(__LINE__) __attribute__((cleanup(cleanup_unlock), unused)) = (mutex);         \
	pthread_mutex_lock(mutex)

/* Hands a value out of a cleanup variable. */
static inline void *steal_ptr(void *p)
{
	void **slot = p, *value = *slot;
	*slot = NULL;
	return value;
}

static inline int steal_fd(int *fd)
{
	int value = *fd;
	*fd = -1;
	return value;
}

#endif
