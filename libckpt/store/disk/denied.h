/* Denied: who may not work in a directory, and what to do about it. The kernel's "Permission denied" says neither; above all root wonders,
 * who is nobody on an NFS server that squashes it. */
#ifndef CKPT_STORE_DENIED_H
#define CKPT_STORE_DENIED_H

#include "store/disk/disk.h"

#include <sys/types.h>

/* Adds to the text of err, if rc is -EACCES or -EPERM, whose the directory is. Returns rc. */
int denied_by(uid_t owner, mode_t mode, int rc, struct err *err);
/* The same of a handle, and of a path. */
int denied_dir(struct disk *d, int dir, int rc, struct err *err);
int denied_path(const char *path, int rc, struct err *err);

#endif
