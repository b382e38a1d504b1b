/* forget: a library to be preloaded that makes fsync(2) answer 0 and do nothing, for regular files or for directories, as
 * CKPT_FORGET says ("file", "directory"). With CKPT_DISK_ENGINE=threads that is what a daemon would be that had forgotten the call: by
 * it the test of power cuts shows that it can fail. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd)
{
	struct stat st;
	const char *what = getenv("CKPT_FORGET");
	if (what && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) == !strcmp(what, "directory"))
		return 0;
	return (int)syscall(SYS_fsync, fd);
}
