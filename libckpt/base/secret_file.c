#include "base/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

int secret_file_check(int fd, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "%s", err_name(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "it is not a file");
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, -EACCES, "it belongs to user %u, who could change it: chown it to user %u or root",
			       st.st_uid, geteuid());
	if (st.st_mode & 077)
		return err_set(err, -EACCES, "its mode is %04o, so that others can reach it: chmod 600 it",
			       st.st_mode & 07777);
	return 0;
}
