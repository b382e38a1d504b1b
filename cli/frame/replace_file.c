#include "frame/replace_file.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

int file_can_be_written(const char *path, struct err *err)
{
	char folder[PATH_MAX];
	struct stat st;
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return err_set(err, -EISDIR, "%s: %s", path, err_name(-EISDIR));
	if (!access(path, W_OK))
		return 0;
	if (errno != ENOENT || snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder))
		return err_set(err, -errno, "%s: %s", path, err_name(errno));
	if (access(dirname(folder), W_OK | X_OK))
		return err_set(err, -errno, "%s: the folder of it: %s", path, err_name(errno));
	return 0;
}

int replace_file(const char *path, int (*put)(FILE *f, const void *arg), const void *arg, struct err *err)
{
	char part[PATH_MAX + 8];
	struct stat st;
	snprintf(part, sizeof(part), "%s.part", path);
	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s is not a regular file, and stays as it is", path);
	if (unlink(part) && errno != ENOENT)
		return err_set(err, -errno, "%s: %s", part, err_name(-errno));
	int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", part, err_name(-errno));
	FILE *f = fdopen(fd, "w");
	int rc = f ? 0 : -errno;
	if (!f)
		close(fd);
	if (f) {
		rc = put(f, arg);
		if (fflush(f) || ferror(f))
			rc = rc ? rc : -EIO;
		if (fclose(f))
			rc = rc ? rc : -errno;
	}
	if (!rc && rename(part, path))
		rc = -errno;
	if (rc)
		unlink(part);
	return rc ? err_set(err, rc, "%s: %s", path, err_name(rc)) : 0;
}
