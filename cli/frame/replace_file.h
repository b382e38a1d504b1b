/* Replace file: what a command leaves in a file that its caller has named. */
#ifndef CKPT_CLI_REPLACE_FILE_H
#define CKPT_CLI_REPLACE_FILE_H

#include "base/err.h"

#include <stdio.h>

/* Under another name first: who reads the file finds the old or the new one. A device or a link must not become a file: -EINVAL. put: 0 or
 * -errno. What cannot be written leaves the old one as it was. */
int replace_file(const char *path, int (*put)(FILE *f, const void *arg), const void *arg, struct err *err);

/* Whether a file of this name can be written, as far as can be told without making it: for what is written only after a long time. */
int file_can_be_written(const char *path, struct err *err);

#endif
