/* Key: the cluster key, a file of 32 random bytes in hexadecimal or base64, the same on all nodes. Who can read it is a node. */
#ifndef CKPTD_NET_KEY_H
#define CKPTD_NET_KEY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { KEY_BYTES = 32 };

/* White space around it does not count. -EINVAL, which says nothing of what was read. */
int key_parse(const char *text, size_t len, uint8_t key[KEY_BYTES], struct err *err);
/* -EACCES: it is not ours or root's, or others may read or write it (mode 0600 or 0400); else what key_parse and reading can say. */
int key_read(const char *path, uint8_t key[KEY_BYTES], struct err *err);

#endif
