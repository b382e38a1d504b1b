/* Key: the cluster key, 32 random bytes in a file that only the daemon's user (or root) can read. While it is changed
 * there are several, in one file or in two: the first is used first, and each is taken. */
#ifndef CKPTD_LINK_KEY_H
#define CKPTD_LINK_KEY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { KEY_BYTES = 32, KEYS_FILE = 2, KEYS_MAX = 4 }; /* of a file, of a ring */

struct key_ring {
	uint8_t keys[KEYS_MAX][KEY_BYTES];
	unsigned n;
};

/* Each in hexadecimal or base64, in lines of their own. -EINVAL. */
int key_parse(const char *text, size_t len, struct key_ring *ring, struct err *err);
/* Refuses a file that others could read or have written: -EACCES. */
int key_read(const char *path, struct key_ring *ring, struct err *err);
/* Those of `more` come after those of `ring`. */
void key_add(struct key_ring *ring, const struct key_ring *more);
void key_wipe(struct key_ring *ring);

#endif
