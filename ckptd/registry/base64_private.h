/* Base64 of RFC 4648 with padding: how etcd's JSON carries keys and values. */
#ifndef CKPTD_REGISTRY_BASE64_PRIVATE_H
#define CKPTD_REGISTRY_BASE64_PRIVATE_H

#include "base/bytes.h"

/* Appends the text of the bytes. */
void base64_put(struct wbuf *w, const void *data, size_t len);

/* Bytes that a text of this length can have at most. */
static inline size_t base64_room(size_t len)
{
	return len / 4 * 3;
}

/* Into dst, which has room for base64_room(len). The number of bytes, or -EBADMSG: only the one way to write it counts. */
long base64_get(const char *text, size_t len, void *dst);

#endif
