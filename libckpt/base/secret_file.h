/* Secret file: a file with a secret, a key or a password, is its user's or root's, and closed to all others. */
#ifndef CKPT_BASE_SECRET_FILE_H
#define CKPT_BASE_SECRET_FILE_H

#include "base/err.h"

/* An open one. -EINVAL, -EACCES: it is not so, with a sentence that lacks the path. */
int secret_file_check(int fd, struct err *err);

#endif
