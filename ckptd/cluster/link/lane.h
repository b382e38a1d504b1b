/* Lane: a connection over which copies go. TLS proves whose it is; what follows goes without TLS, sealed (sealed.h) or
 * bare. A node that copies opens one to the other node, with the first copy of a session. That node answers its requests
 * in their order. So each side has at most one of each kind. Its bytes are believed because the link's end has proved who
 * it is, and has said the token of the session (link_token()).
 *
 *	asks, first     FRAME_LANE     str name, token of the session; the node says FRAME_LANE, empty, if it takes the lane
 *	asks            lane_request, and the bytes of a write
 *	answers         lane_answer: one to a write, to a read as many as it takes, each with some of its bytes
 *
 * This header: what goes over it. Pure. */
#ifndef CKPTD_LINK_LANE_H
#define CKPTD_LINK_LANE_H

#include "base/bytes.h"
#include "cluster/link/link.h"
#include "format/tensor/names.h"

#include <stdbool.h>

#define LANE_TOKEN "EXPORTER-ckpt-lane"

enum {
	LANE_REQUEST_BYTES = 24,
	LANE_ANSWER_BYTES = 8,
	LANE_PIECE = 1 << 20, /* a part in one go: each piece costs calls into the kernel on both sides */
};

struct lane_hello {
	char from[NAME_NODE_MAX];
	uint8_t token[LINK_TOKEN];
};

struct lane_request {
	uint32_t kind; /* enum net_kind */
	uint32_t len;  /* 1 .. NET_CHUNK */
	uint64_t key, offset;
};

struct lane_answer {
	uint32_t rc;  /* 0, EACCES: there is no such region any more, ERANGE: beyond its end */
	uint32_t len; /* bytes of a read that follow, at most LANE_PIECE; 0 with an error, and to a write */
};

void lane_hello_encode(const struct lane_hello *hello, struct wbuf *out);
/* -EBADMSG. */
int lane_hello_decode(const void *body, size_t len, struct lane_hello *out);
void lane_request_encode(const struct lane_request *request, uint8_t out[LANE_REQUEST_BYTES]);
/* -EPROTO. */
int lane_request_decode(const uint8_t in[LANE_REQUEST_BYTES], struct lane_request *out);
void lane_answer_encode(const struct lane_answer *answer, uint8_t out[LANE_ANSWER_BYTES]);
/* left: bytes of the request that have not come. -EPROTO: not an answer to it. */
int lane_answer_decode(const uint8_t in[LANE_ANSWER_BYTES], uint32_t kind, uint64_t left, struct lane_answer *out);

#endif
