/* Link: one TLS connection with another daemon, and the frames in it (frame.h). Nothing here waits. Of one thread.
 *
 * What others can have it spend: of one that was accepted, a descriptor until its first flight is there (first_flight.h);
 * then OpenSSL's state; buffers only once the handshake is over. Messages of TLS's own that come later (new keys) are
 * few, or it is over. */
#ifndef CKPTD_LINK_LINK_H
#define CKPTD_LINK_LINK_H

#include "base/address.h"
#include "base/list.h"
#include "cluster/link/credentials.h"
#include "cluster/link/frame.h"

#include <stddef.h>

enum {
	LINK_OUT = 16 * (FRAME_HEAD + FRAME_BODY_MAX), /* bytes that wait to be sent */
	LINK_TOKEN = 32,                               /* of a token */
};

enum link_state {
	LINK_CONNECTING,
	LINK_STRANGER, /* accepted: it has not said all of its first flight */
	LINK_SHAKING,
	LINK_OPEN, /* TLS is set up: frames go */
	LINK_OVER
};

struct peer;
struct sealed;

struct link {
	struct list list; /* of the door, while nobody's; or of those to be freed */
	enum link_state state;
	int fd;
	unsigned events;    /* that are watched */
	bool caller;        /* ours is the end that called */
	struct peer *peer;  /* whose it is; NULL: nobody's yet */
	union address from; /* of one that was accepted */
	bool met; /* its caller has just said who it is (credentials_claimed()); link_shake() goes on to answer it */
	struct list waits; /* in peer->waiting: it is not answered for now, and nothing is heard of it */
	bool answers;      /* it is counted in peer->answered */
	uint64_t since;    /* clock_now() when it was begun */
	SSL *ssl;
	uint64_t records; /* sent with the present key */
	uint64_t reads;   /* that brought something, and messages of TLS's own since it is open */
	uint64_t asides;
	size_t have, out_len;
	size_t out_most;       /* that out_len ever was: pages behind it were never touched */
	bool stuck;            /* what is written waits for the network */
	bool bare;             /* bytes go without TLS from now on */
	struct sealed *sealed; /* NULL: they do not go sealed */
	bool held;             /* and the last that were put wait for more */
	const char *why;       /* OpenSSL's word for what ended it; NULL: none */
	uint8_t *in, *out;     /* FRAME_HEAD + FRAME_BODY_MAX, LINK_OUT; NULL: it has not been open */
};

/* Begins to connect; attempt as in credentials_call(). NULL: no memory, no descriptor, no way there. */
struct link *link_call(struct credentials *c, unsigned node, unsigned attempt, const union address *to);
/* Takes fd over. NULL: no memory, and fd is closed. */
struct link *link_accept(int fd, const union address *from);
/* It is over, after a try to say so: what stays is its memory. */
void link_close(struct link *l);
void link_free(struct link *l);

/* Goes on with connecting and the handshake: 1: it is open, 0: not yet, or it was met just now, -errno: it failed
 * (-EACCES: who the other end says it is). c: for one that was accepted. */
int link_shake(struct link *l, struct credentials *c);
/* 1: a frame, 0: none yet, -ECONNRESET, -EPROTO (what is no frame; too much of what TLS says beside them). */
int link_read(struct link *l, struct frame *out);
/* Of an open one. Whether another frame of that body finds room. */
bool link_has_room(const struct link *l, size_t len);
/* Nothing of what has come so far is left: more of it is told by the descriptor. */
bool link_is_dry(const struct link *l);
/* A record takes one call of the kernel's instead of two, and more may be read than link_read() asks for: not where
 * link_get() takes what follows frames. */
void link_read_ahead(struct link *l);
void link_write(struct link *l, enum frame_kind kind, const void *body, size_t len);
/* Sends what was written, as far as the network takes it. -ECONNRESET. */
int link_flush(struct link *l);
/* From now on the kernel finds out whether there still is a way to the other end, however little is said: without one for
 * so long, it is over. */
void link_keep(const struct link *l, uint64_t limit_ns);
/* What both ends of this connection know, and nobody else (RFC 8446, 7.5); another label or context gives another one,
 * which tells nothing of it. false: no memory. */
bool link_token(const struct link *l, const char *label, const void *context, size_t len, uint8_t token[LINK_TOKEN]);

/* For bytes in bulk (lane.h): what follows goes without TLS, in both directions, bare or sealed by keys that TLS exports
 * (sealed.h). When nothing is on the way that was said before; none of TLS's own keys is used again. link_seal(): false:
 * no memory. */
void link_bare(struct link *l);
bool link_seal(struct link *l);
/* Of one that is sealed: 1: so many bytes, put in one go or in two, will all be taken; 0: not now, -ECONNRESET. Of another one: 1. */
int link_room(struct link *l, size_t len);
/* Bytes that were taken or have come, 0: none now, -ECONNRESET, -EPROTO as above. What was put is on its way after
 * link_push(): 0 or -ECONNRESET. */
int link_put(struct link *l, const void *bytes, size_t len);
int link_get(struct link *l, void *out, size_t len);
int link_push(struct link *l);

/* EPOLLIN, EPOLLOUT: what it waits for; 0: nothing. */
unsigned link_wants(const struct link *l);

#endif
