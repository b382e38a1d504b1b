#include "store/catalog/database.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* SQLite opens them for itself. */
static bool is_of_system(const char *path)
{
	return !strcmp(path, "/dev/urandom") || !strcmp(path, "/dev/null");
}

static int open_plain(const char *path, int flags, int mode)
{
	struct stat st;
	AUTO_CLOSE int fd = -1;
	if (is_of_system(path))
		return open(path, flags, mode);
	/* To open some devices does something. */
	if (!lstat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
	if (fd < 0 || fstat(fd, &st))
		return -1;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	return steal_fd(&fd);
}

static void take_over(void)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
	if (vfs && vfs->iVersion >= 3)
		vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)(void (*)(void))open_plain);
}

int database_open(const char *path, int flags, struct sqlite3 **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, take_over);
	return sqlite3_open_v2(path, out, flags | SQLITE_OPEN_NOFOLLOW, NULL);
}

int database_is_odd(struct sqlite3 *db)
{
	int code = sqlite3_system_errno(db);
	return sqlite3_extended_errcode(db) == SQLITE_CANTOPEN_SYMLINK || code == EINVAL || code == ELOOP ||
	       code == EISDIR || code == ENXIO;
}
