/* Secret: a file that only we may read: a password, a private key. */
#ifndef CKPTD_REGISTRY_SECRET_PRIVATE_H
#define CKPTD_REGISTRY_SECRET_PRIVATE_H

#include "base/err.h"

enum { SECRET_MAX = 1024 };

/* Its one line, with a NUL; the caller wipes it. -EACCES, -EINVAL, ... with a sentence. */
int secret_read(const char *path, char secret[SECRET_MAX], struct err *err);
/* Only whether it is closed to others. */
int secret_check(const char *path, struct err *err);

#endif
