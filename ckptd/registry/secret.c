#include "registry/secret_private.h"

#include "base/cleanup.h"
#include "base/secret_file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int open_secret(const char *path, int *out, struct err *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc = fd < 0 ? err_set(err, -errno, "%s", err_name(errno)) : secret_file_check(fd, err);
	if (!rc)
		*out = steal_fd(&fd);
	return rc;
}

int secret_check(const char *path, struct err *err)
{
	AUTO_CLOSE int fd = -1;
	int rc = open_secret(path, &fd, err);
	return rc ? err_prefix(err, rc, "%s", path) : 0;
}

/* One line of at least one letter. */
static int check_line(char *text, ssize_t n, struct err *err)
{
	if (n < 0)
		return err_set(err, -errno, "%s", err_name(errno));
	text[n] = 0;
	char *end = strpbrk(text, "\r\n");
	if ((size_t)n == SECRET_MAX - 1 || memchr(text, 0, (size_t)n) || end == text || n == 0 ||
	    (end && end[strspn(end, "\r\n")]))
		return err_set(err, -EINVAL, "it is not one line of 1 to %d bytes", SECRET_MAX - 3);
	if (end)
		*end = 0;
	return 0;
}

int secret_read(const char *path, char secret[SECRET_MAX], struct err *err)
{
	AUTO_CLOSE int fd = -1;
	int rc = open_secret(path, &fd, err);
	if (!rc)
		rc = check_line(secret, read(fd, secret, SECRET_MAX - 1), err);
	return rc ? err_prefix(err, rc, "%s", path) : 0;
}
