/* Sealed: the bytes of a lane, both ways, sealed (sealer.h) with keys that its TLS connection exports and nobody else
 * has. There is one for each direction, and the next one when it has sealed enough. Bytes are sealed from where they are
 * into what is sent; what has come is opened in its buffer, and only then copied to where it belongs. Nothing here waits. */
#ifndef CKPTD_LINK_SEALED_H
#define CKPTD_LINK_SEALED_H

#include "cluster/link/sealer.h"

#include <openssl/ssl.h>

enum {
	SEALED_OUT = 8 * SEALER_RECORD, /* bytes of buffers */
	SEALED_IN = 4 * SEALER_RECORD,
};

/* One direction. */
struct sealed_way {
	struct sealer sealer;
	uint8_t from;  /* 0: the caller's bytes */
	uint32_t keys; /* that it has had */
};

struct sealed {
	const SSL *ssl;
	int fd;
	struct sealed_way sent, heard;
	size_t out_at, out_end;   /* what waits to be sent */
	size_t in_at, in_end;     /* what has come, and was not opened */
	size_t open_at, open_end; /* what was opened, and was not taken */
	uint8_t out[SEALED_OUT], in[SEALED_IN];
};

/* Over the socket of a connection that is set up, when nothing is on the way that was said by TLS. Both stay the
 * caller's. NULL: no memory. */
struct sealed *sealed_new(const SSL *ssl, int fd, bool caller);
/* Wipes all it has. NULL is allowed. */
void sealed_free(struct sealed *s);

/* Whether so many bytes, put in one go or in two, will all be taken: 1, 0: the network takes no more now, -ECONNRESET. */
int sealed_room(struct sealed *s, size_t len);
/* Bytes that were taken, 0: the network takes no more now. */
int sealed_put(struct sealed *s, const void *bytes, size_t len);
/* Bytes that have come, 0: none now. -EPROTO: what came was not sealed by the other end. */
int sealed_get(struct sealed *s, void *out, size_t len);
/* Sends what was put. 1: all of it, 0: not all yet. */
int sealed_push(struct sealed *s);

#endif
