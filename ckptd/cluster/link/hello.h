/* Hello: what each side says first over a link whose other end has proved that it belongs to the cluster (credentials.h). Pure. */
#ifndef CKPTD_LINK_HELLO_H
#define CKPTD_LINK_HELLO_H

#include "base/bytes.h"
#include "format/tensor/names.h"

enum {
	HELLO_PROTOCOL =
		23, /* of the frames, and of what peers say in them: raised with every release in which a message has changed */
	HELLO_ROSTER = 32,
	HELLO_ADDRESS_MAX = 64,
	HELLO_REGISTRY_MAX = 136,
};

/* As libfabric has it. */
struct hello_address {
	uint8_t bytes[HELLO_ADDRESS_MAX];
	uint8_t len;
};

struct hello {
	uint32_t protocol; /* these three are first in every protocol */
	char from[NAME_NODE_MAX], to[NAME_NODE_MAX];
	uint8_t roster[HELLO_ROSTER];      /* its digest */
	uint64_t incarnation;              /* random: another one is another process */
	uint64_t attempt;                  /* which hello of this process to the receiver it is */
	uint64_t resumes;                  /* which of them began the session that goes on; 0: one begins */
	uint8_t way;                       /* enum net_copies */
	char registry[HELLO_REGISTRY_MAX]; /* prefix of the records by which it agrees with others; "": it uses none */
	struct hello_address copies;       /* where the sender's memory is reached by RDMA; else of no length */
};

void hello_encode(const struct hello *hello, struct wbuf *out);
/* -EBADMSG. -EPROTO: of another protocol; what follows `to` is not filled in. */
int hello_decode(const void *body, size_t len, struct hello *out);

#endif
