/* Liveness: whether the other end of a session is there, as far as this end wants to know. It asks, and until something
 * is heard it counts the silence. It wants to know while
 *
 *	it is one of those who look after that node (neighbours.h);
 *	the session is used, or was a moment ago;
 *	others do not hear that node.
 *
 * So a session that is not used costs nothing, and the loss of its node is found by those who look after that. They tell
 * all others when an answer has been missing for a quarter of the limit, and these ask, too. A node is never lost only
 * because others say so. But if two nodes missed it, it has that much less time. So all know within the limit. Pure: the
 * clock is the caller's. */
#ifndef CKPTD_LINK_LIVENESS_H
#define CKPTD_LINK_LIVENESS_H

#include "cluster/link/silence.h"

enum {
	LIVENESS_ASKS = 4,    /* within the limit of silence */
	LIVENESS_USE_S = 10,  /* since something was said: the session is used */
	LIVENESS_DOUBTERS = 2 /* so many others count */
};

#define LIVENESS_NEVER UINT64_MAX

enum liveness_does {
	LIVENESS_NOTHING = 0,
	LIVENESS_ASK,   /* say so that it answers */
	LIVENESS_DOUBT, /* tell the others that it does not */
	LIVENESS_LOST
};

struct liveness {
	uint64_t limit, tick; /* ns: of silence; between two looks while an answer is missing */
	bool watched;         /* this end looks after it */
	uint64_t used_until;
	uint64_t ask_at;  /* or somewhat before, when something else is looked at */
	bool asked, say;  /* an answer is missing; the question has yet to be said */
	bool doubted;     /* it was told that this end does not hear it */
	unsigned ndoubts; /* others that do not, of this silence */
	unsigned doubters[LIVENESS_DOUBTERS];
	struct silence silence; /* since it was asked */
};

/* A session has begun, and is looked at for as long as the limit of silence. A quarter of that may be over before a
 * question is due. */
void liveness_begin(struct liveness *l, uint64_t limit, uint64_t tick, uint64_t now);
void liveness_watch(struct liveness *l, bool watched);
/* Something other than questions and answers goes over it. */
void liveness_use(struct liveness *l, uint64_t now);
/* Anything at all has been heard, for one a question. Of two that look after each other, who has asked goes on to ask. */
void liveness_heard(struct liveness *l, bool question, uint64_t now);
/* It has been asked just now, by other words. */
void liveness_ask(struct liveness *l, uint64_t now);
/* That node does not hear it. */
void liveness_doubt(struct liveness *l, unsigned node, uint64_t now);
/* What is to be done now; each but LOST once. */
enum liveness_does liveness_look(struct liveness *l, uint64_t now);
/* It has not answered for a quarter of the limit. */
bool liveness_silent(const struct liveness *l);
/* When it is to be looked at again, which may be over; or LIVENESS_NEVER. */
uint64_t liveness_due(const struct liveness *l, uint64_t now);

#endif
