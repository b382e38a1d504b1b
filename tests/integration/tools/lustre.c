/* Preloaded into a program that is to believe that every directory is on Lustre: statfs says so, and LUSTRE_LOV, in hexadecimal digits, is
 * what the extended attribute lustre.lov holds; without it there is none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

int fstatfs(int fd, struct statfs *buf)
{
	int rc = (int)syscall(SYS_fstatfs, fd, buf);
	buf->f_type = 0x0bd00bd0;
	return rc;
}

ssize_t fgetxattr(int fd, const char *name, void *value, size_t size)
{
	const char *hex = getenv("LUSTRE_LOV");
	if (strcmp(name, "lustre.lov") != 0)
		return syscall(SYS_fgetxattr, fd, name, value, size);
	size_t n = hex ? strlen(hex) / 2 : 0;
	if (!n || n > size) {
		errno = n ? ERANGE : ENODATA;
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		sscanf(hex + 2 * i, "%2hhx", (unsigned char *)value + i);
	return (ssize_t)n;
}
