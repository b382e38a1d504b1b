/* Rumours: what nodes tell each other of a third one. A node that looks after another one and has no answer of it says so
 * (a doubt). A node that has lost one with which it had a connection says that, too (a loss). Both say it to all with
 * which they have a connection. A node that hears a rumour for the first time tells it to its neighbours in the ring. So
 * all nodes hear of it, each by a few messages. It ends no session: a node that has a session with the other one asks or
 * calls it.
 *
 * The same rumour comes in from several sides: it is the same if it tells of about the same time. Pure. */
#ifndef CKPTD_LINK_RUMOURS_H
#define CKPTD_LINK_RUMOURS_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	RUMOUR_BYTES = 16,
	RUMOUR_DOUBTS = 2,    /* by different nodes, are told on of each */
	RUMOUR_FRESH_S = 10,  /* losses within it are one; so long it is told to those who come */
	RUMOUR_SPREAD_MS = 2, /* for each node of the cluster: within this all have looked */
};

struct rumour {
	uint32_t node, by; /* of which, by whom first */
	uint32_t ms;       /* ago: last heard, or lost */
	uint32_t hops;     /* it may still be told on so often */
};

/* What has been told of one node. */
struct rumours {
	struct {
		uint32_t by;
		uint64_t at; /* 0: none */
	} doubts[RUMOUR_DOUBTS];
	uint64_t lost_at; /* 0: nobody has said so */
};

void rumour_encode(const struct rumour *rumour, struct wbuf *out);
/* -EBADMSG. */
int rumour_decode(const void *body, size_t len, struct rumour *out);

/* Whether it is to be told on. limit: ns of silence. */
bool rumours_doubt(struct rumours *r, const struct rumour *rumour, uint64_t limit, uint64_t now);
bool rumours_lost(struct rumours *r, const struct rumour *rumour, uint64_t now);
/* Whether those who come are to hear of the loss: what they are to hear. */
bool rumours_fresh(const struct rumours *r, struct rumour *out, uint64_t now);

#endif
