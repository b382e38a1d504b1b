#include "store/disk/denied.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_denial(int rc, const struct err *err)
{
	return err && (rc == -EACCES || rc == -EPERM);
}

int denied_by(uid_t owner, mode_t mode, int rc, struct err *err)
{
	uid_t self = geteuid();
	/* With its own rights to write and to enter it is something else that is refused. */
	if (!is_denial(rc, err) || (owner == self && (mode & 0300) == 0300))
		return rc;
	struct err was = *err;
	const char *squashed = self ? "" : " (root is nobody on NFS with root_squash)";
	if (owner == self)
		return err_set(err, rc,
			       "%s: the directory is this user's (%u) own, with mode %o: give it back its rights%s",
			       was.text, (unsigned)self, (unsigned)mode & 07777, squashed);
	return err_set(err, rc,
		       "%s: the directory belongs to user %u, with mode %o, and this is user %u: work as user %u, or "
		       "let this one in%s",
		       was.text, (unsigned)owner, (unsigned)mode & 07777, (unsigned)self, (unsigned)owner, squashed);
}

int denied_dir(struct disk *d, int dir, int rc, struct err *err)
{
	struct disk_stat st;
	if (!is_denial(rc, err) || disk_stat_at(d, dir, ".", &st))
		return rc;
	return denied_by(st.uid, st.mode, rc, err);
}

int denied_path(const char *path, int rc, struct err *err)
{
	struct stat st;
	if (!is_denial(rc, err) || stat(path, &st) < 0)
		return rc;
	return denied_by(st.st_uid, st.st_mode, rc, err);
}
