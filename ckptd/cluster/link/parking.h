/* Parking: a session that nobody uses goes on without a connection. Both ends say so, each as the last that it says over
 * the connection:
 *
 *	one end          the other one
 *	 | PARK ───────────► |   its loop minds no loss of the other node (net_events.minds), and nothing is on its way
 *	 | ◄─────────── PARK |   the same: both close. Or STAY: all goes on, and it is tried again later
 *
 * Both may say PARK at once. The session keeps its number, and is taken to be there. An end that wants something of the
 * other end calls it. Then the session goes on where it was. It has ended if the other end knows nothing of it, or does
 * not answer. A node that hears that the other end is lost (rumours.h) calls it, too: a node is never lost only because
 * others say so. Pure: the clock is the caller's. */
#ifndef CKPTD_LINK_PARKING_H
#define CKPTD_LINK_PARKING_H

#include "cluster/link/silence.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	PARKING_IDLE_S = 20, /* since it was used */
	PARKING_AGAIN = 3,   /* so many times as long since one of both wanted it to stay */
	PARKING_GRACE = 20,  /* this part of it, in which the other end comes to the same conclusion */
	PARKING_CALL_MS =
		1000, /* a call is given twice so long, or twice the limit of silence: its first packet may be lost */
};

#define PARKING_NEVER UINT64_MAX

struct parking {
	uint64_t idle;          /* ns without use after which it is tried */
	uint64_t at;            /* then */
	uint64_t uses;          /* so far, and connections: what was agreed to before the last one counts no more */
	bool said, heard;       /* PARK, over the present connection */
	bool parked;            /* there is none */
	bool wanted;            /* parked: it is called */
	struct silence silence; /* since then */
	uint64_t look_at;       /* parked: to be called then, for it may be lost */
};

/* The session has begun, or has a connection again. */
void parking_begin(struct parking *p, uint64_t idle, uint64_t now);
/* Something other than questions and answers goes over it. */
void parking_use(struct parking *p, uint64_t now);
/* One of both does not agree. */
void parking_stay(struct parking *p, uint64_t now);
/* Since `at` the other end has had time, too. */
uint64_t parking_due(const struct parking *p);
/* Its connection is gone. */
void parking_park(struct parking *p);

/* Of one that is parked: it is to be called, and answers within twice the limit or is lost. */
void parking_want(struct parking *p, uint64_t limit, uint64_t tick, uint64_t now);
bool parking_is_lost(struct parking *p, uint64_t now);
/* It may be lost: it is to be called then. */
void parking_doubt(struct parking *p, uint64_t when);

#endif
